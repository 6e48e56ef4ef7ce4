import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PROMPT = `#script ${JSON.stringify([{ shell: "echo hello > hello.txt" }, { say: "done" }])}`;

let model: ScriptedModel;
let project: string;
beforeAll(async () => {
  model = await createScriptedModel();
  project = mkdtempSync(join(tmpdir(), "cassette-example-"));
  mkdirSync(join(project, "node_modules"));
  // The package as a project sees it.
  symlinkSync(ROOT, join(project, "node_modules", "sluice"));
  symlinkSync(join(ROOT, "node_modules", "vitest"), join(project, "node_modules", "vitest"));
  copyFileSync(join(ROOT, "examples/cassette-test/agent.test.mjs"), join(project, "agent.test.mjs"));
});
afterAll(async () => {
  await model.close();
  rmSync(project, { recursive: true, force: true });
});

/** Runs the example's test suite as its reader would. */
function runSuite(env: Record<string, string>): Promise<{ code: number | null; output: string }> {
  const clean = Object.entries(process.env).filter(
    ([name]) => !/_API_KEY$|_BASE_URL$|^CI$|^VITEST/.test(name),
  );
  const child = spawn(
    process.execPath,
    [join(ROOT, "node_modules/vitest/vitest.mjs"), "run", "--root", project],
    {
      cwd: project,
      env: { ...Object.fromEntries(clean), PROMPT, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString("utf8")));
  return new Promise((done) => child.on("close", (code) => done({ code, output })));
}

it("examples/cassette-test records once, and CI replays it without a key", { timeout: 300_000 }, async () => {
  const live = await runSuite({ ANTHROPIC_API_KEY: "sk-of-the-example", ANTHROPIC_BASE_URL: model.url });
  expect([live.code, live.output]).toEqual([0, expect.stringContaining("1 passed")]);
  const { length } = model.requests;
  expect(length).toBeGreaterThanOrEqual(2);
  expect(readFileSync(join(project, "agent.cassette.jsonl"), "utf8").trim().split("\n")).toHaveLength(length);

  const again = await runSuite({ CI: "true" });
  expect([again.code, again.output]).toEqual([0, expect.stringContaining("1 passed")]);
  const changed = await runSuite({ CI: "true", PROMPT: `${PROMPT} ` });
  expect(changed.code).toBe(1);
  expect(changed.output).toContain("the first difference is at /messages/");
  expect(model.requests).toHaveLength(length);
});
