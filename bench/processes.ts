import { type ChildProcess, execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** Milliseconds of processor time that all threads of these processes have had; NaN where the kernel does not count it. */
export function cpuMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuOf(pid), 0);
}

function cpuOf(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.reduce((sum, thread) => sum + onCpu(`/proc/${pid}/task/${thread}/schedstat`), 0) / 1e6;
  } catch {
    return Number.NaN;
  }
}

function onCpu(file: string): number {
  return Number(readFileSync(file, "utf8").split(" ")[0]);
}

/** The resident memory of these processes together, in bytes. */
export function residentBytes(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + residentOf(pid), 0);
}

/** The processes that this one has started and that still run. */
export function childrenOf(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8").split(" ").filter(Boolean).map(Number);
}

/** The resident memory once it has stopped falling, or after two seconds. */
export async function settledBytes(pids: readonly number[]): Promise<number> {
  let least = residentBytes(pids);
  for (let quiet = 0, looks = 0; quiet < 4 && looks < 20; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const bytes = residentBytes(pids);
    quiet = bytes < least * 0.998 ? 0 : quiet + 1;
    least = Math.min(least, bytes);
  }
  return least;
}

function residentOf(pid: number): number {
  const status = `/proc/${pid}/status`;
  if (existsSync(status)) {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(status, "utf8"))?.[1] ?? 0) * 1024;
  }
  return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) * 1024;
}

/** The address that a server prints when it listens. */
export async function listeningUrl(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error("the server has no output");
  const lines = createInterface({ input: child.stdout });
  const exited = once(child, "exit").then(() => {
    throw new Error("the server ended before it was ready");
  });
  exited.catch(() => {});
  const [line] = (await Promise.race([once(lines, "line"), exited])) as [string];
  const url = /http:\/\/\S+/.exec(line)?.[0];
  if (url === undefined) throw new Error(`the server printed no address: ${line}`);
  return url;
}

const PATIENCE_MS = 10_000;

/** Ends a child process and waits for its exit. */
export async function endChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  child.kill(signal);
  await exit;
  clearTimeout(timer);
}
