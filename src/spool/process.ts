import { constants } from "node:os";
import { join } from "node:path";
import { readFile, writeFile } from "../disk/onTheSpot.ts";
import type { ProcessExit } from "../contract/index.ts";

/** The wrapper's pid, or undefined as long as it has not begun. */
export async function readPid(folder: string): Promise<number | undefined> {
  return (await readIdentity(folder))?.pid;
}

/** How the process ended; undefined while it runs or has not begun. */
export async function readExit(folder: string): Promise<ProcessExit | undefined> {
  const recorded = await readRecordedExit(folder);
  if (recorded !== undefined) return recorded;
  const identity = await readIdentity(folder);
  if (identity === undefined || (await isRunning(identity))) return undefined;
  // It may have recorded its end just before it was found dead.
  return (await readRecordedExit(folder)) ?? { lost: true };
}

/** Whether the wrapper of this spool runs: the very process, not one that got its pid later. */
export async function isAlive(folder: string): Promise<boolean> {
  const identity = await readIdentity(folder);
  return identity !== undefined && (await isRunning(identity));
}

interface ProcessIdentity {
  readonly pid: number;
  readonly start: string;
  readonly boot: string;
}

async function readIdentity(folder: string): Promise<ProcessIdentity | undefined> {
  const [pid, start, boot] = (await readWhole(join(folder, "pid")))?.split(" ") ?? [];
  if (!pid) return undefined;
  return { pid: Number(pid), start: start ?? "", boot: boot ?? "" };
}

/** The status as the wrapper wrote it, or as `recordKill` did for a wrapper that could not. */
export async function readRecordedExit(folder: string): Promise<ProcessExit | undefined> {
  const status = await readWhole(join(folder, "exit"));
  return status === undefined ? undefined : toProcessExit(Number(status));
}

export async function recordKill(folder: string): Promise<void> {
  await writeFile(join(folder, "exit"), `${128 + constants.signals.SIGKILL}\n`, { mode: 0o600 }).catch(() => {
    // A full disk: then the slow look at the pid finds the end.
  });
}

function toProcessExit(status: number): ProcessExit {
  const signal = Object.entries(constants.signals).find(([, number]) => number === status - 128);
  return signal === undefined ? { code: status } : { signal: signal[0] };
}

async function isRunning({ pid, start, boot }: ProcessIdentity): Promise<boolean> {
  if (start === "") return exists(pid);
  if (boot !== "" && (await thisBoot(boot)) !== boot) return false;
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The second field is the program's name in parentheses, which may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[19] === start && fields[0] !== "Z" && fields[0] !== "X";
}

let known: string | undefined;

async function thisBoot(otherwise: string): Promise<string> {
  known ??= await readFile("/proc/sys/kernel/random/boot_id", "utf8").then(
    (id) => id.trim(),
    () => undefined,
  );
  return known ?? otherwise;
}

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The one line of a small file, once it is written whole. */
export async function readWhole(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  return text.endsWith("\n") ? text.slice(0, -1) : undefined;
}
