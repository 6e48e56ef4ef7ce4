import { readdirSync, readFileSync } from "node:fs";

/** Milliseconds of processor time that all threads of these processes have had; not a number where nobody counts it. */
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
