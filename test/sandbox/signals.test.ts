import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Cgroup } from "../../src/sandbox/host/processes/cgroup.ts";
import { sendSignal } from "../../src/sandbox/host/processes/kill.ts";

it("a signal goes to a process or a group of a sandbox, never to our own group or to everybody", async () => {
  const child = spawn("sleep", ["60"], { stdio: "ignore", detached: true });
  await once(child, "spawn");
  const exit = once(child, "exit");
  let heard = 0;
  const hear = (): void => void (heard += 1);
  process.on("SIGCONT", hear);
  try {
    for (const pid of [0, -0, 1, Number.NaN, 0.5]) expect(sendSignal(pid, "SIGCONT")).toBe(false);
    expect(sendSignal(-(child.pid ?? 0), "SIGKILL")).toBe(true);
    expect(await exit).toEqual([null, "SIGKILL"]);
    expect(heard).toBe(0);
  } finally {
    process.off("SIGCONT", hear);
  }
});

it("members of a cgroup that live in another pid namespace, which the kernel tells as 0, are no pids", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-cgroup-"));
  await writeFile(join(folder, "cgroup.procs"), "0\n4711\n0\n");
  expect(await new Cgroup(folder).members()).toEqual([4711]);
  await rm(folder, { recursive: true });
});
