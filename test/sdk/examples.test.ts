import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { script } from "../support/engine.ts";

const ROOT = resolve(import.meta.dirname, "../..");
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-example-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it("examples/ui-loop shows every update of an agent", async () => {
  const prompt = script(
    { plan: [{ content: "look", status: "pending", priority: "low" }] },
    { say: "hello" },
    { shell: "echo hi" },
    { mcp: { server: "browser-use", tool: "browser_task", input: {} } },
  );
  const { stdout } = await promisify(execFile)(process.execPath, ["examples/ui-loop/main.mjs", prompt], {
    cwd: ROOT,
    env: { ...process.env, XDG_DATA_HOME: folder },
  });
  for (const part of [
    "[pending] look",
    "hello",
    "> execute `echo hi` completed",
    "> browser browser-use: browser_task failed",
    "run_complete",
    "sandbox_killed",
  ])
    expect(stdout).toContain(part);
});
