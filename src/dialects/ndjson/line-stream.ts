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
