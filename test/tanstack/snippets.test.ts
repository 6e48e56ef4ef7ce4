import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type AgUiBench, openAgUi } from "../http/ag-ui/ag-ui-bench.ts";
import { script } from "../support/engine.ts";
import { createRepository } from "./repository.ts";

let bench: AgUiBench;
const removals: (() => Promise<void>)[] = [];
beforeAll(async () => {
  bench = await openAgUi();
});
afterAll(async () => {
  await bench.close();
  for (const remove of removals) await remove();
});

describe("the seed's snippets (TS-28, TS-29)", () => {
  afterEach(() => vi.restoreAllMocks());

  it.each(["file-changed", "sandbox-file"])("%s prints the expected output", async (name) => {
    const repository = await createRepository();
    removals.push(repository.remove);
    vi.resetModules();
    vi.stubEnv("SLUICE_TEST_URL", bench.url);
    vi.stubEnv("SLUICE_TEST_FOLDER", repository.folder);
    vi.stubEnv("SLUICE_TEST_PROMPT", script({ edit: { path: "a.txt", old: "two", new: "2" } }));
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    await import(`./snippets/${name}.ts`);
    const [first] = log.mock.calls;
    if (name === "file-changed") expect(first).toEqual([await repository.diff()]);
    else
      expect(first).toEqual([
        "file event",
        { type: "change", path: "/home/user/workspace/a.txt", timestamp: expect.any(Number) as number },
      ]);
    vi.unstubAllEnvs();
  });
});
