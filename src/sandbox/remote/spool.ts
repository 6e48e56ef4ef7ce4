import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError, type ProcessExit, type StderrOutput } from "../../contract/index.ts";
import {
  toStderr,
  type Cleaning,
  type OutputBatch,
  type SentEntry,
  type Spool,
  type SpoolBatch,
  type StderrLines,
} from "../../spool/index.ts";
import { checkBatch, checkOutput } from "./answers.ts";
import { isUnreachable } from "./client.ts";
import type { SandboxCalls } from "./calls.ts";

interface SpoolState {
  readonly pid?: number;
  readonly exit?: ProcessExit;
  readonly size: number;
  readonly length: number;
  readonly errorLength: number;
  readonly isAlive: boolean;
}

const LONGEST_PAUSE_MS = 5_000;
/** The most that one call reads. */
const READ_BYTES = 1024 * 1024;

/** The spool of a process on another machine. A lost connection only delays it. */
export class RemoteSpool implements Spool {
  readonly #calls: SandboxCalls;
  readonly #name: string;

  constructor(calls: SandboxCalls, name: string) {
    this.#calls = calls;
    this.#name = name;
  }

  async *follow({ from, signal }: { from: number; signal: AbortSignal }): AsyncGenerator<SpoolBatch, void> {
    let at = from;
    const open = (): AsyncIterable<unknown> => this.#stream("follow", { from: at }, signal);
    for await (const given of unbroken<unknown>(open, signal)) {
      const batch = given === "lost" ? given : checkBatch(given, at);
      at = batch === "lost" ? at : batch.offset;
      yield batch === "lost" ? { lines: [], offset: at, exit: { lost: true } } : batch;
      if (batch === "lost" || batch.exit) return;
    }
  }

  async *replay(from: number, to: number): AsyncGenerator<SpoolBatch, void> {
    for await (const batch of this.#stream("replay", { from, to })) yield checkBatch(batch, from);
  }

  async *outputs(options: {
    from: { stdout: number; stderr: number };
    signal: AbortSignal;
  }): AsyncGenerator<OutputBatch, void> {
    const { signal } = options;
    const at = { ...options.from };
    const open = (): AsyncIterable<unknown> => this.#stream("outputs", at, signal);
    for await (const batch of unbroken<unknown>(open, signal)) {
      const { stdout, stderr, exit } = batch === "lost" ? LOST_OUTPUT : checkOutput(batch);
      const bytes = { stdout: Buffer.from(stdout, "base64"), stderr: Buffer.from(stderr, "base64") };
      at.stdout += bytes.stdout.length;
      at.stderr += bytes.stderr.length;
      yield { ...bytes, ...(exit ? { exit: exit as ProcessExit } : {}) };
      if (exit) return;
    }
  }

  send({ id, at, text }: SentEntry): Promise<boolean> {
    return this.#call("send", { id, at, text });
  }

  sent(): Promise<readonly SentEntry[]> {
    return this.#call("sent");
  }

  repair(): Promise<void> {
    return this.#call("repair");
  }

  closeInput(): Promise<void> {
    return this.#call("close-input", {}, { silenceMs: 60_000 });
  }

  async pid(): Promise<number | undefined> {
    return (await this.#state())?.pid;
  }

  async exit(): Promise<ProcessExit | undefined> {
    const state = await this.#state();
    return state ? state.exit : { lost: true };
  }

  async isAlive(): Promise<boolean> {
    return (await this.#state())?.isAlive ?? false;
  }

  killed(): Promise<void> {
    return this.#ifThere(this.#call("killed"));
  }

  copied(): Promise<void> {
    return this.#ifThere(this.#call("copied"));
  }

  async stderr(cleaning?: Cleaning): Promise<StderrOutput> {
    const lines = await this.#found(this.#call<StderrLines>("stderr", { reach: cleaning?.reach ?? 0 }));
    return toStderr(lines ?? { total: 0, head: [] }, cleaning);
  }

  async read(stream: "out" | "err", { from, most }: { from: number; most: number }): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let at = from; at < from + most;) {
      const range = { stream, from: at, most: Math.min(READ_BYTES, from + most - at) };
      const part = Buffer.from((await this.#found(this.#call<string>("read", range))) ?? "", "base64");
      parts.push(part);
      at += part.length;
      if (part.length < range.most) break;
    }
    return Buffer.concat(parts);
  }

  async errorLength(): Promise<number> {
    return (await this.#state())?.errorLength ?? 0;
  }

  async size(): Promise<number> {
    return (await this.#state())?.size ?? 0;
  }

  async length(): Promise<number> {
    return (await this.#state())?.length ?? 0;
  }

  forget(offset: number): Promise<void> {
    return this.#ifThere(this.#call("forget", { offset }));
  }

  remove(): Promise<void> {
    return this.#ifThere(this.#call("remove"));
  }

  /** Undefined where the machine has no such spool any more. */
  #state(): Promise<SpoolState | undefined> {
    return this.#found(this.#call<SpoolState>("state"));
  }

  #call<T>(operation: string, body: object = {}, options: { silenceMs?: number } = {}): Promise<T> {
    return this.#calls.repeat(operation, { ...body, name: this.#name }, options);
  }

  #stream(operation: string, query: Record<string, number>, signal?: AbortSignal): AsyncIterable<unknown> {
    return this.#calls.lines(operation, { ...query, name: this.#name }, signal);
  }

  #found<T>(call: Promise<T>): Promise<T | undefined> {
    return call.catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw error;
    });
  }

  async #ifThere(call: Promise<void>): Promise<void> {
    await this.#found(call);
  }
}

const LOST_OUTPUT: ReturnType<typeof checkOutput> = { stdout: "", stderr: "", exit: { lost: true } };

/** A stream that begins again after each cut, for as long as it takes; "lost" where its process is certainly gone. */
export async function* unbroken<B>(
  open: () => AsyncIterable<unknown>,
  signal: AbortSignal,
): AsyncGenerator<B | "lost", void, undefined> {
  for (let pause = 20; !signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      for await (const batch of open()) {
        pause = 20;
        yield batch as B;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isMissing(error)) return yield "lost";
      if (!isUnreachable(error)) throw error;
      await sleep(pause, undefined, { signal }).catch(() => {});
    }
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "not_found";
}
