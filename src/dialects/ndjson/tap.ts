import { parseLine } from "./line.ts";
import { LineSplitter } from "./line-splitter.ts";
import type { NdjsonParserOptions } from "./parser.ts";

/** Passes the bytes on as they are, and knows the run's response once it has gone by. */
export interface NdjsonTap extends TransformStream<Uint8Array, Uint8Array> {
  /** The message of the run's `result`. Rejects with a `RunError` for its `error`, or when the stream ends before either. */
  readonly response: Promise<string>;
}

/** A workflow forwards a run's lines and surfaces its response: `body.pipeThrough(tap)`, `await tap.response`. */
export function createNdjsonTap({
  maxLineBytes,
  signal,
}: Pick<NdjsonParserOptions, "maxLineBytes" | "signal"> = {}): NdjsonTap {
  const splitter = new LineSplitter(maxLineBytes);
  const { promise, resolve, reject } = defer<string>();
  // Whoever only forwards never looks at it.
  promise.catch(() => {});
  const abort = (): void => reject(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();

  const settle = (how: () => void): void => {
    signal?.removeEventListener("abort", abort);
    how();
  };
  const see = (text: string): void => {
    const line = read(text);
    if (line?.type === "result") settle(() => resolve(line.message));
    if (line?.type === "error") settle(() => reject(new RunError(line.code, line.message)));
  };
  const stream = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      for (const { text, fault } of splitter.push(chunk)) if (fault === undefined) see(text);
      controller.enqueue(chunk);
    },
    flush() {
      for (const { text, fault } of splitter.end()) if (fault === undefined) see(text);
      const truncated = new RunError("stream_truncated", "The run's stream ended before its result.");
      settle(() => reject(truncated));
    },
  });
  return Object.assign(stream, { response: promise });
}

/** A run that ended with an `error` line. */
export class RunError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "RunError";
    this.code = code;
  }
}

function read(text: string): ReturnType<typeof parseLine> | undefined {
  try {
    return parseLine(text);
  } catch {
    return undefined;
  }
}

function defer<T>(): { promise: Promise<T>; resolve(value: T): void; reject(reason: unknown): void } {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
