import { constants } from "node:os";
import { join } from "node:path";
import { readFile, writeFile } from "../disk/sync-files.ts";
import type { ProcessExit } from "../contract/index.ts";

/** The wrapper's pid; undefined before its start. */
export async function readPid(folder: string): Promise<number | undefined> {
  return (await readIdentity(folder))?.pid;
}

/** The exit of the process; undefined before its start and while it runs. */
export async function readExit(folder: string): Promise<ProcessExit | undefined> {
  const recorded = await readRecordedExit(folder);
  if (recorded !== undefined) return recorded;
  const identity = await readIdentity(folder);
  if (identity === undefined || (await isRunning(identity))) return undefined;
  // The exit may have been recorded after the first look.
  return (await readRecordedExit(folder)) ?? { lost: true };
}

/** Whether the wrapper of this spool runs. A later process with the same pid does not count. */
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

/** The exit status from the wrapper, or from `recordKill` in its place. */
export async function readRecordedExit(folder: string): Promise<ProcessExit | undefined> {
  const status = await readWhole(join(folder, "exit"));
  return status === undefined ? undefined : toProcessExit(Number(status));
}

export async function recordKill(folder: string): Promise<void> {
  await writeFile(join(folder, "exit"), `${128 + constants.signals.SIGKILL}\n`, { mode: 0o600 }).catch(() => {
    // On a full disk, the slower check of the pid finds the end.
  });
}

function toProcessExit(status: number): ProcessExit {
  const signal = Object.entries(constants.signals).find(([, number]) => number === status - 128);
  return signal === undefined ? { code: status } : { signal: signal[0] };
}

/** The exit code of a shell: 128 and the signal's number for a process that a signal ended. */
export function exitCodeOf({ code, signal }: ProcessExit): number | undefined {
  if (code !== undefined || signal === undefined) return code;
  return 128 + constants.signals[signal as NodeJS.Signals];
}

async function isRunning({ pid, start, boot }: ProcessIdentity): Promise<boolean> {
  if (start === "") return exists(pid);
  if (boot !== "" && (await thisBoot(boot)) !== boot) return false;
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The second field is the program's name in parentheses, which may contain spaces.
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

/** The only line of a small file; undefined before it is complete. */
export async function readWhole(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    if (isNoFile(error)) return "";
    throw error;
  });
  return text.endsWith("\n") ? text.slice(0, -1) : undefined;
}

const NO_FILE: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "EISDIR", "ELOOP"]);

/** Whether the file was removed, or replaced by something that cannot be read as a file. */
export function isNoFile(error: unknown): boolean {
  return NO_FILE.has((error as NodeJS.ErrnoException).code);
}
