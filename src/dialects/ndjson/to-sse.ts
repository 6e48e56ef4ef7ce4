import {
  type AssistantSandboxNDJSONLine,
  type ErrorLine,
  type LogLine,
  NdjsonError,
  parseLine,
  type SplitLine,
  type StepLine,
} from "./line.ts";
import { createLineTransform, type NdjsonParserOptions } from "./line-stream.ts";

export interface NdjsonToSseOptions extends NdjsonParserOptions {
  /** Called for each log line; browsers get none. */
  readonly onLog?: (line: LogLine) => void;
  /** Called for each line after the turn's last one. */
  readonly onIgnored?: (text: string) => void;
}

/** The data of the last frame of a turn's event stream. */
export const DONE = '{"type":"done"}';

/**
 * Turns a turn's NDJSON into server-sent events: `step`, `result` or `error`, then `done`, without logs. An invalid or
 * truncated stream ends with an `error`.
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

/** Removes the carriage returns between the tokens of JSON: in server-sent events they would end the line. */
function toFrame(event: string, text: string, id: number): string {
  const data = text.includes("\r") ? JSON.stringify(JSON.parse(text)) : text;
  return `event: ${event}\nid: ${id}\ndata: ${data}\n\n`;
}

function read({ text, fault }: SplitLine): AssistantSandboxNDJSONLine {
  if (fault !== undefined) throw new NdjsonError(fault, text);
  return parseLine(text);
}

/** The maximum count of a turn's steps: an endless sender must not fill the memory. */
const MAX_STEPS = 100_000;

/** A line of the output: one of the input, or one that the sender should have sent before it. */
export interface Passed {
  readonly line: AssistantSandboxNDJSONLine;
  readonly text: string;
}

/** Enforces the rules of one turn: each step starts and ends once, and a `result` or an `error` is the last line. */
class TurnLedger {
  readonly #open = new Map<string, StepLine>();
  readonly #closed = new Set<string>();
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The output lines for an input line; throws if the line breaks a rule. */
  take(line: AssistantSandboxNDJSONLine, text: string): Passed[] {
    if (line.type === "log") return [];
    if (line.type === "step") return this.#step(line, text);
    return [...this.#close(line.ts), { line, text }];
  }

  /** Ends the turn of a sender that broke the rules or disconnected. */
  fail(error: Pick<ErrorLine, "code" | "message">): Passed[] {
    return [...this.#close(), toPassed({ type: "error", ...error })];
  }

  #step(line: StepLine, text: string): Passed[] {
    const { id, name, args, status, ts } = line;
    if (this.#closed.has(id)) throw new NdjsonError(`the step ${JSON.stringify(id)} has already ended`, text);
    if (status === "running") {
      if (this.#open.size + this.#closed.size >= MAX_STEPS && !this.#open.has(id))
        throw new NdjsonError(`the turn has more than ${MAX_STEPS} steps`, text);
      this.#open.set(id, line);
      return [{ line, text }];
    }
    const isKnown = this.#open.delete(id);
    this.#closed.add(id);
    if (isKnown) return [{ line, text }];
    const started: StepLine = {
      type: "step",
      id,
      name,
      status: "running",
      ...(args === undefined ? {} : { args }),
      ...(ts === undefined ? {} : { ts }),
    };
    return [toPassed(started), { line, text }];
  }

  #close(ts?: number): Passed[] {
    this.#isOver = true;
    const left = [...this.#open.values()].map((step) => toInterrupted(step, ts));
    this.#open.clear();
    return left.map(toPassed);
  }
}

function toInterrupted({ type, id, name }: StepLine, ts: number | undefined): StepLine {
  const line: StepLine = { type, id, name, status: "failed", error: "interrupted" };
  return ts === undefined ? line : { ...line, ts };
}

function toPassed(line: AssistantSandboxNDJSONLine): Passed {
  return { line, text: JSON.stringify(line) };
}
