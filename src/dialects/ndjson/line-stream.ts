import {
  type AssistantSandboxNDJSONLine,
  NdjsonError,
  NdjsonLineSplitter,
  parseLine,
  type SplitLine,
} from "./line.ts";

export interface NdjsonParserOptions {
  /** Whether an invalid line fails the stream (default) or is dropped. */
  readonly strict?: boolean;
  /** The maximum size of a line; a longer line is invalid. */
  readonly maxLineBytes?: number;
  /** Called for each invalid line. */
  readonly onRejected?: (error: NdjsonError) => void;
  /** Fails the stream when it aborts. */
  readonly signal?: AbortSignal;
}

/** A stream from bytes or text to parsed lines: `response.body.pipeThrough(createNdjsonParser())`. */
export function createNdjsonParser(
  options: NdjsonParserOptions = {},
): TransformStream<Uint8Array | string, AssistantSandboxNDJSONLine> {
  const { strict = true, onRejected } = options;
  return createLineTransform<AssistantSandboxNDJSONLine>(options, {
    line({ text, fault }, controller) {
      try {
        if (fault !== undefined) throw new NdjsonError(fault, text);
        controller.enqueue(parseLine(text));
      } catch (error) {
        if (!(error instanceof NdjsonError)) throw error;
        onRejected?.(error);
        if (strict) throw error;
      }
    },
  });
}

export interface LineTransform<Out> {
  /** Returns true to end the stream. Further lines of the same chunk still come here. */
  line(line: SplitLine, controller: TransformStreamDefaultController<Out>): boolean | void;
  end?(controller: TransformStreamDefaultController<Out>): void;
}

/** A stream that splits its input into lines and handles the end and the abort signal. */
export function createLineTransform<Out>(
  { maxLineBytes, signal }: Pick<NdjsonParserOptions, "maxLineBytes" | "signal">,
  { line, end }: LineTransform<Out>,
): TransformStream<Uint8Array | string, Out> {
  const splitter = new NdjsonLineSplitter(maxLineBytes);
  let unhook: (() => void) | undefined;
  return new TransformStream<Uint8Array | string, Out>({
    start(controller) {
      if (!signal) return;
      const abort = (): void => controller.error(signal.reason);
      if (signal.aborted) return abort();
      signal.addEventListener("abort", abort, { once: true });
      unhook = () => signal.removeEventListener("abort", abort);
    },
    transform(chunk, controller) {
      let isOver = false;
      for (const split of splitter.push(chunk)) if (line(split, controller)) isOver = true;
      if (!isOver) return;
      unhook?.();
      // Cancels the input too.
      controller.terminate();
    },
    flush(controller) {
      unhook?.();
      for (const split of splitter.end()) line(split, controller);
      end?.(controller);
    },
  });
}

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
