import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

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

/** Waits until the memory has stopped falling, or long enough. */
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
