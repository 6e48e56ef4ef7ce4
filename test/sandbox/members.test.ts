import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { KEY_VARIABLE } from "../../src/sandbox/host/processes/environment.ts";
import { Members } from "../../src/sandbox/host/processes/members.ts";

let folder: string;
let key: string;
let members: Members;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-members-"));
  key = randomBytes(16).toString("hex");
  members = new Members({ folder, key, cgroup: undefined });
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await rm(folder, { recursive: true, force: true });
});

/** A shell that becomes another program when it is told to. */
function startBecoming(program: string, env: Record<string, string>): { pid: number; become(): void } {
  const child = spawn("/bin/sh", ["-c", `read -r go; exec ${program}`], {
    env: { PATH: "/usr/bin:/bin", ...env },
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  children.push(child);
  return { pid: child.pid as number, become: () => void child.stdin?.write("go\n") };
}

async function isMarked(pid: number): Promise<boolean> {
  return (await readFile(`/proc/${pid}/environ`, "latin1")).includes(key);
}

it.runIf(process.platform === "linux")(
  "a process that was seen in a sandbox stays its member when it becomes another with an empty environment",
  async () => {
    const { pid, become } = startBecoming("env -i sleep 60", { [KEY_VARIABLE]: key });
    await expect.poll(() => isMarked(pid)).toBe(true);
    expect(await members.find()).toEqual([pid]);
    become();
    await expect.poll(() => isMarked(pid)).toBe(false);
    expect(await members.find()).toEqual([pid]);
    expect(await members.has(pid)).toBe(true);
    const others = new Members({ folder, key: "another", cgroup: undefined });
    expect(await others.find()).toEqual([]);
  },
);

it.runIf(process.platform === "linux")("a process that gets its mark by an exec is found", async () => {
  const { pid, become } = startBecoming(`env ${KEY_VARIABLE}=${key} sleep 60`, {});
  expect(await members.find()).toEqual([]);
  become();
  await expect.poll(() => isMarked(pid)).toBe(true);
  expect(await members.find()).toEqual([pid]);
});
