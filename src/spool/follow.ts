import { watch, type FSWatcher } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessExit } from "../contract/index.ts";
import type { OutputBatch, SpoolBatch } from "./port.ts";
import { readExit, readPid } from "./process.ts";
import { openLineReader, type LineLimits } from "./reader.ts";
import { drained } from "./relay.ts";
import { demandLength } from "./shortened.ts";

interface Following {
  readonly signal: AbortSignal;
  /** After this time a wrapper without a pid file counts as lost. */
  readonly startGraceMs: number;
}

/** The lines of `out`, as the caller asks for them, until the process has ended. */
export async function* follow(
  folder: string,
  { from, limits, ...following }: Following & { from: number; limits: LineLimits },
): AsyncGenerator<SpoolBatch, void, undefined> {
  if (following.signal.aborted) return;
  const reader = await openLineReader(join(folder, "out"), { from }, limits);
  let exit: ProcessExit | undefined;
  try {
    exit = yield* readUntilExit(folder, ["out"], following, () => reader.next());
  } finally {
    await reader.close();
  }
  // The files are closed before the last batch: a consumer may stop there.
  if (exit !== undefined) yield { ...reader.rest(), exit };
}

/** The lines in [from, to), the last of them with or without its newline. Throws where the file was shortened. */
export async function* replay(
  folder: string,
  options: { from: number; to: number; limits: LineLimits },
): AsyncGenerator<SpoolBatch, void, undefined> {
  const { from, to, limits } = options;
  const reader = await openLineReader(join(folder, "out"), { from, to }, limits);
  try {
    for (let batch = await reader.next(); batch !== undefined; batch = await reader.next()) yield batch;
    const rest = reader.rest();
    demandLength({ size: rest.offset }, to);
    if (rest.lines.length > 0) yield rest;
  } finally {
    await reader.close();
  }
}

/** The bytes of both outputs, as the caller asks for them, until the process has ended. */
export async function* followOutputs(
  folder: string,
  { from, ...following }: Following & { from: { stdout: number; stderr: number } },
): AsyncGenerator<OutputBatch, void, undefined> {
  const { signal } = following;
  if (signal.aborted) return;
  const stdout = new ByteReader(await open(join(folder, "out"), "r"), from.stdout);
  const stderr = new ByteReader(await open(join(folder, "err"), "r"), from.stderr);
  const read = async (): Promise<OutputBatch | undefined> => {
    const batch = { stdout: await stdout.next(), stderr: await stderr.next() };
    return batch.stdout.length + batch.stderr.length > 0 ? batch : undefined;
  };
  let exit: ProcessExit | undefined;
  try {
    exit = yield* readUntilExit(folder, ["out", "err"], following, read);
  } finally {
    await Promise.all([stdout.close(), stderr.close()]);
  }
  if (exit !== undefined && !signal.aborted)
    yield { stdout: new Uint8Array(), stderr: new Uint8Array(), exit };
}

/** Reads after every growth of these files. Returns the exit, or undefined where the signal was aborted before. */
async function* readUntilExit<B>(
  folder: string,
  files: readonly string[],
  { signal, startGraceMs }: Following,
  read: () => Promise<B | undefined>,
): AsyncGenerator<B, ProcessExit | undefined, undefined> {
  const giveUpAt = performance.now() + startGraceMs;
  const wake = new Wake(folder, signal, files);
  let exit: ProcessExit | undefined;
  try {
    let reason = wake.take();
    while (!signal.aborted) {
      const batch = await read();
      if (batch !== undefined) {
        yield batch;
        continue;
      }
      if (exit !== undefined) return exit;
      // The exit is checked only after a read that found nothing. One more read follows, because output may have come
      // before the exit.
      if (reason === "process") exit = await findExit(folder, giveUpAt);
      if (exit !== undefined) continue;
      await wake.moved();
      reason = wake.take();
    }
    return undefined;
  } finally {
    wake.close();
  }
}

async function findExit(folder: string, giveUpAt: number): Promise<ProcessExit | undefined> {
  const exit = await readExit(folder);
  if (exit !== undefined) await drained(folder);
  if (exit !== undefined || performance.now() < giveUpAt) return exit;
  return (await readPid(folder)) === undefined ? { lost: true } : undefined;
}

const CHUNK_BYTES = 128 * 1024;

class ByteReader {
  readonly #file: FileHandle;
  #offset: number;

  constructor(file: FileHandle, offset: number) {
    this.#file = file;
    this.#offset = offset;
  }

  async next(): Promise<Uint8Array> {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const { bytesRead } = await this.#file.read(chunk, 0, chunk.length, this.#offset);
    this.#offset += bytesRead;
    if (bytesRead === 0) demandLength(await this.#file.stat(), this.#offset);
    return chunk.subarray(0, bytesRead);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

type WakeReason = "output" | "process" | "nothing";

const POLL_MS = 1_000;
/** The interval of the poll when the kernel has no watch left. */
const POLL_ALONE_MS = 50;

/** Wakes the follower of a spool folder: by inotify, and by a slow poll as a fallback. */
class Wake {
  readonly #signal: AbortSignal;
  readonly #outputs: readonly string[];
  readonly #onAbort = (): void => this.close();
  readonly #timer: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #reason: WakeReason = "process";
  #resolve: (() => void) | undefined;

  /** `outputs` are the files whose growth wakes the follower. */
  constructor(folder: string, signal: AbortSignal, outputs: readonly string[]) {
    this.#signal = signal;
    this.#outputs = outputs;
    this.#watcher = this.#watch(folder);
    this.#timer = setInterval(() => this.#stir("process"), this.#watcher ? POLL_MS : POLL_ALONE_MS);
    // The watcher keeps the program alive; without one, the timer does.
    if (this.#watcher) this.#timer.unref();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.close();
  }

  /** The reason since the last call. Call it before reading, so that every later change wakes again. */
  take(): WakeReason {
    const reason = this.#reason;
    this.#reason = "nothing";
    return reason;
  }

  /** Resolves when there is a reason since `take`, or the signal is aborted. */
  async moved(): Promise<void> {
    if (this.#reason !== "nothing" || this.#signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#resolve = resolve;
    });
  }

  close(): void {
    clearInterval(this.#timer);
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#resolve?.();
  }

  #watch(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, (_event, name) => {
        if (name !== null && this.#outputs.includes(name)) this.#stir("output");
        if (name === "exit" || name === "pid" || name === null) this.#stir("process");
      });
      watcher.on("error", () => this.#stir("process"));
      return watcher;
    } catch {
      return undefined;
    }
  }

  #stir(reason: WakeReason): void {
    if (this.#reason !== "process") this.#reason = reason;
    this.#resolve?.();
    this.#resolve = undefined;
  }
}
