import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { readFile, stat } from "../disk/onTheSpot.ts";
import { readExit, readWhole } from "./process.ts";

const run = promisify(execFile);

/** How long a process may leave its input unread before the rest is cut off. */
const PATIENCE_MS = 30_000;

/** Ends the `tail` that feeds the process, once it has handed over all that was appended to `in`. */
export async function closeFeeder(folder: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let pause = 2; performance.now() < deadline; pause = Math.min(pause * 2, 100)) {
    const feeder = await findFeeder(folder);
    if (feeder === "gone" || (await readExit(folder)) !== undefined) return;
    if (feeder !== "awaited" && (await hasDelivered(feeder, folder))) break;
    await sleep(pause);
  }
  await endFeeder(folder);
}

/** Ends it at once, for a process that is gone: the relay does that itself unless somebody has killed it. */
export async function endFeeder(folder: string): Promise<void> {
  const feeder = await findFeeder(folder);
  if (typeof feeder === "number") kill(feeder);
}

/** Its pid; "awaited" while the wrapper has not started it, "gone" when there is none any more. */
export async function findFeeder(folder: string): Promise<number | "awaited" | "gone"> {
  const pid = await readWhole(join(folder, "feeder"));
  if (pid === undefined) return "awaited";
  if (process.platform !== "linux") return (await isOurs(pid, folder)) ? Number(pid) : "gone";
  const [commandLine, stat] = await Promise.all(
    ["cmdline", "stat"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => undefined)),
  );
  if (commandLine === undefined || stat === undefined || /\) [ZX]/.test(stat)) return "gone";
  // Between fork and exec a process has no command line for a moment.
  if (commandLine === "") return "awaited";
  // The pid can be another's by now: only a process that was given our folder is the feeder.
  return commandLine.includes(folder) ? Number(pid) : "gone";
}

/** By `ps`, where processes are no files. */
async function isOurs(pid: string, folder: string): Promise<boolean> {
  const env = { PATH: "/bin:/usr/bin" };
  return run("ps", ["-ww", "-o", "command=", "-p", pid], { env }).then(
    ({ stdout }) => stdout.includes(folder),
    () => false,
  );
}

async function hasDelivered(feeder: number, folder: string): Promise<boolean> {
  const { size } = await stat(join(folder, "in"));
  if (size === 0) return true;
  const io = await readFile(`/proc/${feeder}/io`, "utf8").catch(() => "");
  const written = /^wchar: (\d+)$/m.exec(io)?.[1];
  if (written !== undefined) return Number(written) >= size;
  // Where the kernel keeps no account, the feeder's own poll interval has to do.
  await sleep(1_500);
  return true;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
