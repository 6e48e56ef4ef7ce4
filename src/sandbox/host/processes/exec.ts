import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { constants } from "node:os";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecOptions, ExecResult } from "../../port.ts";
import { sendSignal } from "./kill.ts";

const HOUR_MS = 3_600_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
/** How long output is read after the exit of a command whose children still hold its streams. */
const TRAILING_MS = 100;

/** Waits for a started command; a timeout or an abort calls `end`, which ends its process group by default. */
export async function awaitCommand(
  child: ChildProcess,
  options: ExecOptions,
  end: (pid: number) => void | Promise<void> = (pid) => void sendSignal(-pid, "SIGKILL"),
): Promise<ExecResult> {
  const { input, timeoutMs = HOUR_MS, signal, maxOutputBytes = MAX_OUTPUT_BYTES } = options;
  const stdout = collect(child.stdout, maxOutputBytes);
  const stderr = collect(child.stderr, maxOutputBytes);
  const closed = once(child, "close");
  let timedOut = false;
  const kill = (): void => void end(child.pid as number);
  const timer = setTimeout(() => {
    timedOut = true;
    kill();
  }, timeoutMs);
  signal?.addEventListener("abort", kill, { once: true });
  if (signal?.aborted) kill();
  child.stdin?.on("error", () => {});
  child.stdin?.end(input ?? "");
  try {
    const exitCode = await exitOf(child);
    await Promise.race([closed, sleep(TRAILING_MS, undefined, { ref: false })]);
    signal?.throwIfAborted();
    return { exitCode, stdout: stdout.text(), stderr: withNotes(stderr, stdout), timedOut };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", kill);
    letGo(child);
  }
}

/** Background processes may go on writing, but must not keep this process from its exit. */
function letGo(child: ChildProcess): void {
  child.unref();
  for (const stream of [child.stdout, child.stderr]) (stream as Socket | null)?.unref();
}

async function exitOf(child: ChildProcess): Promise<number> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  if (child.signalCode === null) return child.exitCode ?? 0;
  return 128 + constants.signals[child.signalCode];
}

interface Collected {
  readonly limit: number;
  text(): string;
  isCut(): boolean;
}

/** Keeps the first `limit` bytes and drops the rest, so that the writer never blocks. */
function collect(stream: Readable | null, limit: number): Collected {
  const chunks: Buffer[] = [];
  let kept = 0;
  let cut = false;
  stream?.on("error", () => {});
  stream?.on("data", (chunk: Buffer) => {
    if (kept + chunk.length > limit) cut = true;
    if (kept >= limit) return;
    const part = chunk.subarray(0, limit - kept);
    chunks.push(part);
    kept += part.length;
  });
  return { limit, text: () => Buffer.concat(chunks).toString("utf8"), isCut: () => cut };
}

function withNotes(stderr: Collected, stdout: Collected): string {
  const note = (name: string): string => `\n[${name} was cut after ${stdout.limit} bytes]\n`;
  return stderr.text() + (stderr.isCut() ? note("stderr") : "") + (stdout.isCut() ? note("stdout") : "");
}
