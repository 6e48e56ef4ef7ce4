import { mkdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** The processor time of one command and all its descendants, reparented ones included. */
export interface CpuAccount {
  /** The prefix of the command line. */
  readonly prefix: readonly string[];
  readonly how: string;
  usedMs(): number;
  close(): Promise<void>;
}

const JOIN = 'echo $$ > "$1/cgroup.procs" || exit 125; shift; exec "$@"';

/** Counts by a control group. Without one it counts the whole machine, less its idle use. */
export async function openCpuAccount(name: string): Promise<CpuAccount> {
  return openGroupAccount(name) ?? openMachineAccount();
}

function openGroupAccount(name: string): CpuAccount | undefined {
  try {
    const own = /^\d+:(?:cpu,)?cpuacct:(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
    if (own === undefined) return undefined;
    const group = join("/sys/fs/cgroup/cpuacct", own, `sluice-bench-${process.pid}-${name}`);
    mkdirSync(group);
    return {
      prefix: ["/bin/sh", "-c", JOIN, "sh", group],
      how: "by a control group",
      usedMs: () => Number(readFileSync(join(group, "cpuacct.usage"), "utf8")) / 1e6,
      close: () => removeGroup(group),
    };
  } catch {
    return undefined;
  }
}

const REST_MS = 2_000;

/** A tick of /proc/stat is 10 ms: precise enough for tens of starts on an otherwise idle machine. */
async function openMachineAccount(): Promise<CpuAccount> {
  const before = machineMs();
  const begun = performance.now();
  await sleep(REST_MS);
  const rest = (machineMs() - before) / (performance.now() - begun);
  return {
    prefix: [],
    how: "by /proc/stat, with the client",
    usedMs: () => machineMs() - rest * performance.now(),
    close: async () => {},
  };
}

/** user, nice, system, irq and softirq of all processors. */
function machineMs(): number {
  const line = /^cpu +(.*)$/m.exec(readFileSync("/proc/stat", "utf8"))?.[1] ?? "";
  const ticks = line.split(" ").map(Number);
  return [0, 1, 2, 5, 6].reduce((sum, index) => sum + (ticks[index] ?? Number.NaN), 0) * 10;
}

/** An ended process stays in its group for a moment. */
async function removeGroup(group: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    try {
      return rmdirSync(group);
    } catch {
      await sleep(50);
    }
  }
}
