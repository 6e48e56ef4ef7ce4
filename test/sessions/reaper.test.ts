import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocalProvider } from "../../src/sandbox/index.ts";
import type { SandboxProvider } from "../../src/sandbox/port.ts";
import {
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("nothing leaks", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
  });
  afterEach(() => test.close());

  const folders = (kind: string): Promise<string[]> => readdir(join(test.folder, kind)).catch(() => []);

  it("a sandbox whose session is gone is ended at the next start", async () => {
    await test.engine.create("s", SCRIPTED);
    await say(test.engine, "s", script({ shell: "setsid sleep 1234 & echo on; sleep 1234" }));
    await waitFor(test.log, "s", "item.delta");
    // As after a crash in the middle of a removal: the rows are gone, the sandbox is not.
    await test.engine.close();
    await test.log.remove("s");
    expect(await folders("sandboxes")).toHaveLength(1);
    await test.restart();
    expect(await folders("sandboxes")).toEqual([]);
    expect(await processesWith(test.folder)).toEqual([]);
  });

  it("the sandbox of an ended session is kept for `sandboxTtlMs`", async () => {
    await test.engine.create("s", SCRIPTED);
    await runTurn(test, "s", script({ write: { path: "kept.txt", content: "kept" } }));
    await test.engine.terminate("s");
    const files = await test.engine.files("s");
    expect(Buffer.from(await files.read("kept.txt")).toString()).toBe("kept");
    await test.restart({ limits: { sandboxTtlMs: 0 } });
    expect(await folders("sandboxes")).toEqual([]);
    await expect(test.engine.files("s")).rejects.toMatchObject({ code: "session_ended" });
    expect((await readAll(test.log, "s")).at(-1)?.type).toBe("session.ended");
  });
});

it("a provider that cannot list its sandboxes does not stop the others", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-reaper-"));
  const local = createLocalProvider({ root });
  const broken = { ...local, id: "broken", list: () => Promise.reject(new Error("the engine is down")) };
  const warnings: string[] = [];
  const test = await openEngine({
    providers: [broken as unknown as SandboxProvider, local],
    defaultSandbox: "local",
    logger: ({ message }) => warnings.push(message),
  });
  try {
    expect(warnings).toContain("the sandboxes of a provider could not be listed");
    await test.engine.create("s", SCRIPTED);
    expect((await runTurn(test, "s", script({ say: "hello" }))).data.status).toBe("completed");
  } finally {
    await test.close();
    await rm(root, { recursive: true, force: true });
  }
});
