import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { chooseAgent } from "../../src/cli/run/default-agent.ts";
import type { Harness } from "../../src/harness/port.ts";
import type { Screen } from "../../src/cli/terminal/screen.ts";
import { Workbench } from "./workbench.ts";

let bench: Workbench;
let notes: string[];

beforeEach(() => {
  bench = new Workbench();
  notes = [];
});
afterEach(() => bench.close());

function agent(id: string, installed: boolean, credentials: object[]): Harness {
  return { id, credentials, detect: () => Promise.resolve({ installed }) } as unknown as Harness;
}

const screen = { isWatched: true, note: (text: string) => notes.push(text) } as unknown as Screen;
const choose = (agents: Harness[], env: NodeJS.ProcessEnv = {}) =>
  chooseAgent(screen, { HOME: bench.folder, ...env }, agents);

describe("the default agent", () => {
  const a = agent("a", true, [{ env: "A_KEY" }]);
  const b = agent("b", true, [
    { env: "B_KEY" },
    { file: ".b/login" },
    { file: ".b/account", isCompanion: true },
  ]);
  const missing = agent("missing", false, [{ env: "A_KEY" }]);
  const scripted = agent("scripted", true, []);

  it("is the only one that is installed with a key or login", async () => {
    expect(await choose([a, b, missing, scripted], { A_KEY: "x" })).toBe("a");
    expect(notes.at(-1)).toMatch(/The agent is a, the only one/);
    mkdirSync(join(bench.folder, ".b"));
    writeFileSync(join(bench.folder, ".b/login"), "{}");
    expect(await choose([a, b, missing, scripted])).toBe("b");
    expect(await choose([a, b, missing, scripted], { A_KEY: "x" })).toBe("scripted");
    expect(notes.at(-1)).toMatch(/several have a key \(a, b\).*--agent/);
  });

  it("is the scripted one without a key, and a companion of a login is none", async () => {
    mkdirSync(join(bench.folder, ".b"));
    writeFileSync(join(bench.folder, ".b/account"), "{}");
    expect(await choose([a, b, scripted], { A_KEY: "" })).toBe("scripted");
    expect(notes.at(-1)).toMatch(/no other has a key/);
  });

  it("is found by sluice run, which says nothing of it in a pipe", async () => {
    const programs = join(bench.folder, "programs");
    mkdirSync(programs);
    writeFileSync(join(programs, "amp"), "#!/bin/sh\nexit 3\n");
    chmodSync(join(programs, "amp"), 0o755);
    const PATH = [programs, dirname(process.execPath), "/usr/bin", "/bin"].join(":");
    const env = { PATH, AMP_API_KEY: "key" };
    const ran = await bench.run(["run", "--session", "s", "hello"], { env });
    expect(ran.err).not.toContain("The agent is");
    expect((await bench.run(["sessions", "--json"], { env })).out).toContain('"agent":"amp"');
    rmSync(join(programs, "amp"));
    expect((await bench.run(["run", "--session", "t", "hello"], { env })).code).toBe(0);
    expect((await bench.run(["sessions", "--json", "--limit", "1"], { env })).out).toContain(
      '"agent":"scripted"',
    );
  });
});
