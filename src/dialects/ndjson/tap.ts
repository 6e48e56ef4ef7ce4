import { NdjsonLineSplitter, parseLine } from "./line.ts";
import type { NdjsonParserOptions } from "./line-stream.ts";

/** Passes bytes through unchanged and reads the run's response from them. */
export interface NdjsonTap extends TransformStream<Uint8Array, Uint8Array> {
  /** The message of the run's `result`. Rejects with a `RunError` for its `error`, or when the stream ends before either. */
  readonly response: Promise<string>;
}

/** Forwards a run's lines and gives its response: `body.pipeThrough(tap)`, `await tap.response`. */
export function createNdjsonTap({
  maxLineBytes,
  signal,
}: Pick<NdjsonParserOptions, "maxLineBytes" | "signal"> = {}): NdjsonTap {
  const splitter = new NdjsonLineSplitter(maxLineBytes);
  const { promise, resolve, reject } = defer<string>();
  // A caller that only forwards the bytes never awaits the response: its rejection must not be unhandled.
  promise.catch(() => {});
  const abort = (): void => reject(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();

  const settle = (how: () => void): void => {
    signal?.removeEventListener("abort", abort);
    how();
  };
  const inspect = (text: string): void => {
    const line = read(text);
    if (line?.type === "result") settle(() => resolve(line.message));
    if (line?.type === "error") settle(() => reject(new RunError(line.code, line.message)));
  };
  const stream = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      for (const { text, fault } of splitter.push(chunk)) if (fault === undefined) inspect(text);
      controller.enqueue(chunk);
    },
    flush() {
      for (const { text, fault } of splitter.end()) if (fault === undefined) inspect(text);
      const truncated = new RunError("stream_truncated", "The run's stream ended before its result.");
      settle(() => reject(truncated));
    },
  });
  return Object.assign(stream, { response: promise });
}

/** A run that ended with an `error` line, or whose stream ended before its `result` or `error` line. */
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
