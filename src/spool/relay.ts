import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { readFile } from "../disk/onTheSpot.ts";
import { endFeeder, findFeeder } from "./feeder.ts";
import type { WrappedStart } from "./port.ts";

/**
 * Starts the relay of a spool, hands its streams to `start`, and lets go of them. Node makes every pipe to a child a
 * socket pair; a socket cannot be opened through /proc/PID/fd, so no other process gets at it.
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
  // Closed, never ended: an end would shut the socket for the process that has it by then.
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

/** How long the relay gets to notice that its process is gone. */
const LEAVING_MS = 300;
/** Longer than any disk takes for what a pipe holds. */
const PATIENCE_MS = 5_000;

/** Resolves when all that the process had written by now is in `out` and `err`; it may live on. */
export async function copied(folder: string, patienceMs: number): Promise<readonly string[]> {
  const pids = (await readFile(join(folder, "copiers"), "utf8").catch(() => "")).split("\n").filter(Boolean);
  const deadline = performance.now() + patienceMs;
  const rested = async (pid: string): Promise<void> => {
    while ((await isCopying(pid)) && performance.now() < deadline) await sleep(1);
  };
  await Promise.all(pids.map(rested));
  return pids;
}

/** The same for a process that has ended; its feeder ends too. */
export async function drained(folder: string): Promise<void> {
  const pids = await copied(folder, PATIENCE_MS);
  // The feeder goes with the last who could write; only what was left in the background keeps both.
  const moment = performance.now() + LEAVING_MS;
  while (pids.length > 0 && performance.now() < moment && (await isFed(folder))) await sleep(2);
  // Nobody can write any more, and the relay's shell that would have ended it was killed.
  if (pids.length > 0 && !(await isAnyAlive(pids))) await endFeeder(folder);
}

async function isFed(folder: string): Promise<boolean> {
  return typeof (await findFeeder(folder)) === "number";
}

/** Not told on a system without /proc: there the feeder is left to the relay and to the spool's removal. */
async function isAnyAlive(pids: readonly string[]): Promise<boolean> {
  if (process.platform !== "linux") return true;
  const states = await Promise.all(pids.map(readState));
  return states.some(({ name }) => isCopier(name));
}

/** A copier that sleeps has copied everything: the kernel wakes it before the writer goes on. */
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

/** The pid can be another's by now. */
function isCopier(name: string | undefined): boolean {
  return name === "cat" || name === "sh";
}
