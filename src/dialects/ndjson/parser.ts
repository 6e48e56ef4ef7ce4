import { type AssistantSandboxNDJSONLine, NdjsonError, parseLine } from "./line.ts";
import { LineSplitter, type SplitLine } from "./line-splitter.ts";

export interface NdjsonParserOptions {
  /** A line that breaks the rules fails the stream; `false` drops it and goes on. */
  readonly strict?: boolean;
  /** What one line may have at most; more is a line that breaks the rules. */
  readonly maxLineBytes?: number;
  /** Told of every line that was refused. */
  readonly onRejected?: (error: NdjsonError) => void;
  /** Fails the stream when it aborts. */
  readonly signal?: AbortSignal;
}

/** Bytes or text in, lines of the envelope out: `response.body.pipeThrough(createNdjsonParser())`. */
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
  /** True once nothing more counts: the stream ends, and what is left of its chunk is still shown here. */
  line(line: SplitLine, controller: TransformStreamDefaultController<Out>): boolean | void;
  end?(controller: TransformStreamDefaultController<Out>): void;
}

/** What all transforms of lines have in common: where lines begin and end, and when to stop. */
export function createLineTransform<Out>(
  { maxLineBytes, signal }: Pick<NdjsonParserOptions, "maxLineBytes" | "signal">,
  { line, end }: LineTransform<Out>,
): TransformStream<Uint8Array | string, Out> {
  const splitter = new LineSplitter(maxLineBytes);
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
      // Whoever still sends is told to stop.
      controller.terminate();
    },
    flush(controller) {
      unhook?.();
      for (const split of splitter.end()) line(split, controller);
      end?.(controller);
    },
  });
}
