import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { readFile } from "../disk/sync-files.ts";
import { endFeeder, findFeeder } from "./feeder.ts";
import type { WrappedStart } from "./port.ts";

/**
 * Starts the relay of a spool, gives its streams to `start`, and closes its own ends. Node makes every pipe to a child
 * a socket pair. A socket cannot be opened through /proc/PID/fd, so no other process can use it.
 */
export async function withRelay(
  folder: string,
  start: (stdio: WrappedStart["stdio"]) => Promise<void>,
): Promise<void> {
  const relay = spawn("/bin/sh", [join(folder, "relay"), folder], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
  });
  const { stdin, stdout } = relay;
  // The streams are destroyed without an end: an end would shut the socket down for the process that has it now.
  const letGo = (): void => {
    for (const stream of [stdin, stdout]) stream.destroy();
  };
  for (const stream of [stdin, stdout]) stream.on("error", () => {});
  try {
    await once(relay, "spawn");
    await start({ stdin: stdout as Duplex, stdout: stdin as Duplex });
  } finally {
    letGo();
    relay.unref();
  }
}

/** How long the relay gets to notice the end of its process. */
const LEAVING_MS = 300;
/** Longer than any disk takes for the content of a pipe. */
const PATIENCE_MS = 5_000;

/** Resolves when all output up to now is in `out` and `err`. The process may live on. Returns the pids of the copiers. */
export async function copied(folder: string, patienceMs: number): Promise<readonly string[]> {
  const pids = (await readFile(join(folder, "copiers"), "utf8").catch(() => "")).split("\n").filter(Boolean);
  const deadline = performance.now() + patienceMs;
  const rested = async (pid: string): Promise<void> => {
    while ((await isCopying(pid)) && performance.now() < deadline) await sleep(1);
  };
  await Promise.all(pids.map(rested));
  return pids;
}

/** As `copied`, for a process that has ended: its feeder ends, too. */
export async function drained(folder: string): Promise<void> {
  const pids = await copied(folder, PATIENCE_MS);
  // The feeder ends with the last writer of `out`. Only a background process keeps it alive.
  const moment = performance.now() + LEAVING_MS;
  while (pids.length > 0 && performance.now() < moment && (await isFed(folder))) await sleep(2);
  // No copier lives, so no writer is left: the relay's shell was killed before it could end the feeder.
  if (pids.length > 0 && !(await isAnyAlive(pids))) await endFeeder(folder);
}

async function isFed(folder: string): Promise<boolean> {
  return typeof (await findFeeder(folder)) === "number";
}

/** Returns true on a system without /proc: there the relay, or the removal of the spool, ends the feeder. */
async function isAnyAlive(pids: readonly string[]): Promise<boolean> {
  if (process.platform !== "linux") return true;
  const states = await Promise.all(pids.map(readState));
  return states.some(({ name }) => isCopier(name));
}

/** A sleeping copier has copied everything: the kernel wakes it before the writer goes on. */
async function isCopying(pid: string): Promise<boolean> {
  if (process.platform !== "linux") return sleep(100, false);
  const { name, state } = await readState(pid);
  return isCopier(name) && (state === "R" || state === "D");
}

async function readState(pid: string): Promise<{ name?: string; state?: string }> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const [, name, state] = /^\d+ \((.*)\) (\S)/s.exec(stat) ?? [];
  return name === undefined || state === undefined || "ZX".includes(state) ? {} : { name, state };
}

/** Whether the program is a copier: the pid may belong to another process by now. */
function isCopier(name: string | undefined): boolean {
  return name === "cat" || name === "sh";
}
