import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { constants as system, tmpdir } from "node:os";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import type { Execution, ToolOutcome } from "./tool.ts";

const running = new Set<ChildProcess>();
/** How long a command's pipe must be silent, once the command is over, before what still holds it is let go. */
const QUIET_MS = 50;

/** Runs a command in a process group of its own; both of its outputs come through one pipe, in order. */
export async function runShell(command: string, execution: Execution): Promise<ToolOutcome> {
  const pipe = openPipe();
  const child = spawn("sh", ["-c", command], { detached: true, stdio: ["ignore", pipe.writer, pipe.writer] });
  closeSync(pipe.writer);
  running.add(child);
  const onAbort = () => killGroup(child);
  execution.signal.addEventListener("abort", onAbort, { once: true });
  try {
    const { code, signal } = await toEnd(child, pipe.output, execution);
    execution.signal.throwIfAborted();
    const exitCode = code ?? 128 + (signal === null ? 0 : system.signals[signal]);
    return { exitCode, failed: exitCode !== 0 };
  } finally {
    execution.signal.removeEventListener("abort", onAbort);
    running.delete(child);
  }
}

/** A real pipe, which a command may open again as /dev/stdout: what Node itself makes is a socket, which cannot be. */
function openPipe(): { writer: number; output: Socket } {
  const folder = mkdtempSync(join(tmpdir(), "sluice-shell-"));
  try {
    const path = join(folder, "output");
    execFileSync("mkfifo", [path]);
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return {
      writer: openSync(path, constants.O_WRONLY),
      output: new Socket({ fd: reader, writable: false }),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** For the end of the agent itself: no command outlives it. */
export function killRunningShells(): void {
  for (const child of running) killGroup(child);
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group is gone already.
  }
}

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

function toEnd(child: ChildProcess, stdout: Socket, execution: Execution): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const decoder = new StringDecoder("utf8");
    let ended: Ended | undefined;
    let quiet: NodeJS.Timeout | undefined;
    let closed = false;
    let heard = 0;

    const finish = () => {
      if (ended === undefined || closed) return;
      closed = true;
      clearTimeout(quiet);
      stdout.removeAllListeners("data");
      // What runs on in the background may write on; nobody listens any more, and it must not keep us alive.
      stdout.resume();
      stdout.unref();
      const rest = decoder.end();
      const result = ended;
      if (rest === "") resolve(result);
      else execution.stream(rest).then(() => resolve(result), reject);
    };
    const waitForQuiet = () => {
      clearTimeout(quiet);
      if (ended === undefined) return;
      const before = heard;
      // A late timer may run before what is ready to be read; after the next poll it is known.
      quiet = setTimeout(() => setImmediate(() => heard === before && finish()), QUIET_MS);
    };
    stdout.on("data", (chunk: Buffer) => {
      clearTimeout(quiet);
      heard += chunk.length;
      const text = decoder.write(chunk);
      if (text === "") return waitForQuiet();
      stdout.pause();
      execution.stream(text).then(() => {
        stdout.resume();
        waitForQuiet();
      }, reject);
    });
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      ended = { code, signal };
      if (execution.signal.aborted) finish();
      else waitForQuiet();
    });
    stdout.on("close", finish);
    stdout.on("error", reject);
  });
}
