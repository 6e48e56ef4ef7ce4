import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { constants as system, tmpdir } from "node:os";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import type { Execution, ToolOutcome } from "./calls.ts";

const running = new Set<ChildProcess>();
/**
 * How long the pipe must be silent after a command's exit before the call ends. The end of the pipe is no sign: a
 * background process may keep the pipe open.
 */
const QUIET_MS = 50;

/** Runs a command in a process group of its own. Its stdout and stderr share one pipe, so that their order is kept. */
export async function runShell(command: string, execution: Execution): Promise<ToolOutcome> {
  const pipe = openPipe();
  const child = spawn("sh", ["-c", command], { detached: true, stdio: ["ignore", pipe.writer, pipe.writer] });
  closeSync(pipe.writer);
  running.add(child);
  const onAbort = () => killGroup(child);
  execution.signal.addEventListener("abort", onAbort, { once: true });
  try {
    const { code, signal } = await awaitEnd(child, pipe.output, execution);
    execution.signal.throwIfAborted();
    const exitCode = code ?? 128 + (signal === null ? 0 : system.signals[signal]);
    return { exitCode, failed: exitCode !== 0 };
  } finally {
    execution.signal.removeEventListener("abort", onAbort);
    running.delete(child);
  }
}

/** A FIFO: a command can open it again as /dev/stdout. Node's own stdio pipes are sockets, which cannot be opened. */
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

/** Kills the running commands at the agent's exit. */
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

interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

function awaitEnd(child: ChildProcess, stdout: Socket, execution: Execution): Promise<Exit> {
  return new Promise((resolve, reject) => {
    const decoder = new StringDecoder("utf8");
    let exit: Exit | undefined;
    let quiet: NodeJS.Timeout | undefined;
    let isFinished = false;
    let received = 0;

    const finish = () => {
      if (exit === undefined || isFinished) return;
      isFinished = true;
      clearTimeout(quiet);
      stdout.removeAllListeners("data");
      // A background process may go on writing. Its output is dropped and does not keep the agent alive.
      stdout.resume();
      stdout.unref();
      const rest = decoder.end();
      const result = exit;
      if (rest === "") resolve(result);
      else execution.stream(rest).then(() => resolve(result), reject);
    };
    const waitForQuiet = () => {
      clearTimeout(quiet);
      if (exit === undefined) return;
      const before = received;
      // An overdue timer runs before pending data is read. The immediate runs after the read.
      quiet = setTimeout(() => setImmediate(() => received === before && finish()), QUIET_MS);
    };
    stdout.on("data", (chunk: Buffer) => {
      clearTimeout(quiet);
      received += chunk.length;
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
      exit = { code, signal };
      if (execution.signal.aborted) finish();
      else waitForQuiet();
    });
    stdout.on("close", finish);
    stdout.on("error", reject);
  });
}
