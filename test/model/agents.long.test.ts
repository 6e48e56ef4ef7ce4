import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { prepareAgent } from "./agents.ts";

let model: ScriptedModel;
let folder: string;
beforeEach(async () => {
  model = await createScriptedModel();
  // Codex refuses a home within the folder of temporary files.
  const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "sluice");
  mkdirSync(cache, { recursive: true });
  folder = mkdtempSync(join(cache, "model-test-"));
});
afterEach(async () => {
  await model.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
});

const STEPS = [
  { think: "thinking of it", chunks: 1 },
  { say: "first words", chunks: 1 },
  { shell: "echo from-the-shell > shell.txt" },
  { write: { path: "a.txt", content: "one two\nthree\n" } },
  { read: "a.txt" },
  { edit: { path: "a.txt", old: "two", new: "TWO" } },
  { parallel: [{ shell: "echo 1 > p1.txt" }, { shell: "echo 2 > p2.txt" }] },
  { write: { path: "b.txt", content: "gone\n" } },
  { delete: "b.txt" },
  { subagent: { name: "helper", steps: [{ shell: "echo sub > sub.txt" }, { say: "helped" }] } },
  { say: "last words", chunks: 1 },
];

const AGENTS: AgentId[] = ["claude", "codex", "opencode", "gemini", "grok"];

describe.each(AGENTS)("%s", (id) => {
  it("plays a script with its own tools", { timeout: 180_000 }, async ({ skip }) => {
    const { path, reason } = requireAgent(id);
    if (path === undefined) return skip(reason);
    const { code, out, err, work } = await run(id, path, `#script ${JSON.stringify(STEPS)}`);
    expect(code, `${err}\n${out}`).toBe(0);
    expect(read(work, "shell.txt")).toBe("from-the-shell\n");
    expect(read(work, "a.txt")).toBe("one TWO\nthree\n");
    expect([read(work, "p1.txt"), read(work, "p2.txt")]).toEqual(["1\n", "2\n"]);
    expect(existsSync(join(work, "b.txt"))).toBe(false);
    expect(read(work, "sub.txt")).toBe("sub\n");
    // An agent that prints its prompt has the script as JSON text within JSON, with escaped quotes.
    for (const said of ["first words", "last words"]) expect(out).toContain(`"${said}"`);
    // Gemini's line format has no thoughts.
    if (id !== "gemini") expect(out).toContain('"thinking of it"');
  });
});

async function run(id: AgentId, program: string, prompt: string) {
  const [home, work, temporary] = ["home", "work", "tmp"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const each of [home, work, temporary]) mkdirSync(each);
  const { args, env } = prepareAgent(id, { home, url: model.url });
  const path = [dirname(process.execPath), process.env["PATH"]].join(":");
  const child = spawn(program, [...args, prompt], {
    cwd: work,
    stdio: ["ignore", "pipe", "pipe"],
    // A process group of its own, so that its children end with it.
    detached: true,
    env: { PATH: path, HOME: home, TMPDIR: temporary, ...env },
  });
  const deadline = setTimeout(() => endGroup(child.pid), 150_000);
  try {
    const closed = once(child, "close") as Promise<[number | null]>;
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
    return { code, out, err, work };
  } finally {
    clearTimeout(deadline);
    endGroup(child.pid);
  }
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // It has exited by itself.
  }
}

function read(work: string, name: string): string {
  return readFileSync(join(work, name), "utf8");
}
