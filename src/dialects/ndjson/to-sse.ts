import { TurnLedger, type Passed } from "./ledger.ts";
import { type AssistantSandboxNDJSONLine, type LogLine, NdjsonError, parseLine } from "./line.ts";
import type { SplitLine } from "./line-splitter.ts";
import { createLineTransform, type NdjsonParserOptions } from "./parser.ts";

export interface NdjsonToSseOptions extends NdjsonParserOptions {
  /** Told of what a browser is not: every log line. */
  readonly onLog?: (line: LogLine) => void;
  /** Told of the lines that come behind the turn's last one. */
  readonly onIgnored?: (text: string) => void;
}

/** What closes the SSE form of every turn, whatever became of it. */
export const DONE = '{"type":"done"}';

/**
 * A turn's NDJSON in, server-sent events out: `step`, `result` or `error`, then `done`. Logs stay behind. A stream
 * that breaks the rules, or ends without its last line, ends with an `error` that says so.
 */
export function ndjsonToSse(
  options: NdjsonToSseOptions = {},
): TransformStream<Uint8Array | string, Uint8Array> {
  const { strict = true, onRejected, onLog, onIgnored } = options;
  const encoder = new TextEncoder();
  const ledger = new TurnLedger();
  let lastId = 0;

  const send = (controller: TransformStreamDefaultController<Uint8Array>, passed: readonly Passed[]) => {
    const frames = passed.map(({ line, text }) => toFrame(line.type, text, (lastId += 1)));
    if (ledger.isOver) frames.push(toFrame("done", DONE, (lastId += 1)));
    if (frames.length > 0) controller.enqueue(encoder.encode(frames.join("")));
    return ledger.isOver;
  };

  return createLineTransform<Uint8Array>(options, {
    line(split, controller) {
      if (ledger.isOver) return void onIgnored?.(split.text);
      try {
        const line = read(split);
        if (line.type === "log") return void onLog?.(line);
        return send(controller, ledger.take(line, split.text));
      } catch (error) {
        if (!(error instanceof NdjsonError)) throw error;
        onRejected?.(error);
        if (!strict) return;
        return send(controller, ledger.fail({ code: error.code, message: error.message }));
      }
    },
    end(controller) {
      if (ledger.isOver) return;
      const message = "The run's stream ended before its result.";
      send(controller, ledger.fail({ code: "stream_truncated", message }));
    },
  });
}

// A line may hold carriage returns between its tokens, where server-sent events have no place for them.
function toFrame(event: string, text: string, id: number): string {
  const data = text.includes("\r") ? JSON.stringify(JSON.parse(text)) : text;
  return `event: ${event}\nid: ${id}\ndata: ${data}\n\n`;
}

function read({ text, fault }: SplitLine): AssistantSandboxNDJSONLine {
  if (fault !== undefined) throw new NdjsonError(fault, text);
  return parseLine(text);
}
