import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { constants } from "node:os";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecOptions, ExecResult } from "../../port.ts";
import { sendSignal } from "./kill.ts";

/** The defaults of a command. */
export const TIMEOUT_MS = 3_600_000;
export const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
/** How long output is read after the exit of a command whose children still hold its streams. */
const TRAILING_MS = 100;

/** Waits for a started command; a timeout or an abort calls `end`, which ends its process group by default. */
export async function awaitCommand(
  child: ChildProcess,
  options: ExecOptions,
  end: (pid: number) => void | Promise<void> = (pid) => void sendSignal(-pid, "SIGKILL"),
): Promise<ExecResult> {
  const { input, timeoutMs = TIMEOUT_MS, signal, maxOutputBytes = MAX_OUTPUT_BYTES } = options;
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
    const notes = stderr.note("stderr") + stdout.note("stdout");
    return { exitCode, stdout: stdout.text(), stderr: stderr.text() + notes, timedOut };
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

function collect(stream: Readable | null, limit: number): KeptOutput {
  const output = new KeptOutput(limit);
  stream?.on("error", () => {}).on("data", (chunk: Buffer) => output.push(chunk));
  return output;
}

/** The first `limit` bytes of an output. The rest is dropped, so that the writer never blocks. */
export class KeptOutput {
  readonly #limit: number;
  readonly #chunks: Buffer[] = [];
  #kept = 0;
  #isCut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    if (this.#kept + chunk.length > this.#limit) this.#isCut = true;
    const part = chunk.subarray(0, this.#limit - this.#kept);
    if (part.length === 0) return;
    this.#chunks.push(part);
    this.#kept += part.length;
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  /** The note for stderr where bytes were dropped. */
  note(name: string): string {
    return this.#isCut ? `\n[${name} was cut after ${this.#limit} bytes]\n` : "";
  }
}
