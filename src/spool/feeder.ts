import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { readFile, stat } from "../disk/sync-files.ts";
import { readExit, readWhole } from "./process.ts";

const run = promisify(execFile);

/** How long a process may leave its input unread before the rest is cut off. */
const PATIENCE_MS = 30_000;

/** Ends the `tail` that feeds the process, once it has passed on all of `in`. */
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

/** Ends the feeder at once, after the end of the process. A relay that still lives does that by itself. */
export async function endFeeder(folder: string): Promise<void> {
  const feeder = await findFeeder(folder);
  if (typeof feeder === "number") kill(feeder);
}

/** The feeder's pid; "awaited" before the wrapper has started it, "gone" after its end. */
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
  // The pid may belong to another process by now. Only the feeder has this folder in its command line.
  return commandLine.includes(folder) ? Number(pid) : "gone";
}

/** Whether `ps` shows this folder in the command line, on a system without /proc. */
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
  // Without the kernel's accounting, one poll interval of the feeder has to be enough.
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
