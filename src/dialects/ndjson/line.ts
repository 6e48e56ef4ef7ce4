import { z } from "zod";
import { parseOthersJson } from "../../contract/index.ts";

// The four types of lines. Unknown fields are ignored.

const ts = z.number().nonnegative().optional().describe("Unix epoch milliseconds");

export const LogLine = z.object({
  type: z.literal("log"),
  level: z.enum(["debug", "info", "warn", "error"]),
  message: z.string(),
  ts,
});
export type LogLine = z.infer<typeof LogLine>;

export const StepLine = z.object({
  type: z.literal("step"),
  id: z.string().min(1),
  name: z.string().describe("the tool, recipe or skill that the step ran"),
  status: z.enum(["running", "succeeded", "failed"]),
  args: z.unknown().optional().describe("the arguments as the model gave them"),
  result: z.unknown().optional().describe("the output of the tool"),
  error: z.string().optional().describe("the reason of a failure"),
  durationMs: z.number().nonnegative().optional(),
  ts,
});
export type StepLine = z.infer<typeof StepLine>;

export const ResultLine = z.object({ type: z.literal("result"), message: z.string(), ts });
export type ResultLine = z.infer<typeof ResultLine>;

export const ErrorLine = z.object({ type: z.literal("error"), code: z.string(), message: z.string(), ts });
export type ErrorLine = z.infer<typeof ErrorLine>;

export const NdjsonLine = z.discriminatedUnion("type", [LogLine, StepLine, ResultLine, ErrorLine]);
export type AssistantSandboxNDJSONLine = LogLine | StepLine | ResultLine | ErrorLine;

const TYPES: ReadonlySet<unknown> = new Set(["log", "step", "result", "error"]);

/** Parses one line without its newline; throws `NdjsonError` with the reason for any other text. */
export function parseLine(text: string): AssistantSandboxNDJSONLine {
  let value: unknown;
  try {
    value = parseOthersJson(text);
  } catch {
    throw new NdjsonError("it is not JSON", text);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new NdjsonError("it is not an object", text);
  const { type } = value as { type?: unknown };
  if (!TYPES.has(type))
    throw new NdjsonError(
      `its type is ${JSON.stringify(type) ?? "missing"}, which is none of log, step, result and error`,
      text,
    );
  const parsed = NdjsonLine.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new NdjsonError(faults.join("; "), text);
}

/** The count of characters of an invalid line that its error shows. */
const SHOWN = 1_000;

/** The error of an invalid line. */
export class NdjsonError extends Error {
  readonly code = "protocol_error";
  readonly reason: string;
  /** The beginning of the line. */
  readonly line: string;

  constructor(reason: string, line: string) {
    super(`The line cannot be taken: ${reason}.`);
    this.name = "NdjsonError";
    this.reason = reason;
    this.line = line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
  }
}

/** A line without its newline; with a fault, only the beginning of the line. */
export type SplitLine =
  | { readonly text: string; readonly fault?: undefined }
  | { readonly text: string; readonly fault: string };

/** The default maximum size of a line. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

const LF = 0x0a;

/** Splits a stream into lines. It keeps at most one line in memory, up to the limit. */
export class NdjsonLineSplitter {
  readonly #limit: number;
  readonly #encoder = new TextEncoder();
  /** Decodes the first line, without a byte order mark. Later lines use `LATER_DECODER`. */
  #decoder = new TextDecoder("utf-8", { fatal: true });
  #pieces: Uint8Array[] = [];
  #size = 0;
  #surrogate = "";

  constructor(limit: number = MAX_LINE_BYTES) {
    this.#limit = limit;
  }

  *push(chunk: Uint8Array | string): Generator<SplitLine> {
    const bytes = typeof chunk === "string" ? this.#encode(chunk) : chunk;
    let from = 0;
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      this.#add(bytes.subarray(from, at));
      const line = this.#take();
      if (line) yield line;
      from = at + 1;
    }
    // The rest is copied: the sender may reuse the memory of its chunk.
    this.#add(bytes.slice(from));
  }

  /** Yields the last line if it lacks its newline. */
  *end(): Generator<SplitLine> {
    if (this.#surrogate !== "") this.#add(this.#encoder.encode(this.#surrogate));
    const line = this.#take();
    if (line) yield line;
  }

  /** Holds back half of a surrogate pair: a chunk of text may end inside one. */
  #encode(text: string): Uint8Array {
    const whole = this.#surrogate + text;
    const isCut = /[\ud800-\udbff]$/.test(whole);
    this.#surrogate = isCut ? whole.slice(-1) : "";
    return this.#encoder.encode(isCut ? whole.slice(0, -1) : whole);
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#size += bytes.length;
    // Only the beginning of a line over the limit is kept.
    if (this.#size > this.#limit && this.#pieces.length > 0) return;
    this.#pieces.push(this.#size > this.#limit ? bytes.slice(0, SHOWN) : bytes);
  }

  #take(): SplitLine | undefined {
    const [pieces, size] = [this.#pieces, this.#size];
    this.#pieces = [];
    this.#size = 0;
    if (size === 0) return undefined;
    if (size > this.#limit) {
      const fault = `it has ${size} bytes, and the limit is ${this.#limit}`;
      return { text: toShown(join(pieces)), fault };
    }
    const bytes = pieces.length === 1 ? (pieces[0] as Uint8Array) : join(pieces);
    try {
      const text = this.#decoder.decode(bytes).trim();
      return text === "" ? undefined : { text };
    } catch {
      return { text: toShown(bytes), fault: "it is not UTF-8" };
    } finally {
      this.#decoder = LATER_DECODER;
    }
  }
}

const LATER_DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function join(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

function toShown(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(0, SHOWN));
}
