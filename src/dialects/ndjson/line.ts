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
  result: z.unknown().optional().describe("what the tool returned"),
  error: z.string().optional().describe("why it failed"),
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
    throw new NdjsonError(`its type is ${JSON.stringify(type) ?? "missing"}, which is none of them`, text);
  const parsed = NdjsonLine.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new NdjsonError(faults.join("; "), text);
}

/** How many characters of an invalid line its error shows. */
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
