import type { Context } from "hono";
import type { z } from "zod";
import { findJsonExcess, MAX_BODY_DEPTH, MAX_JSON_VALUES, SluiceError } from "../../contract/index.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import type { AppEnv } from "../context.ts";
import { readBody } from "./read.ts";

/** The body of a request, parsed by its schema. An optional body counts as an empty object. */
export async function readJson<T>(
  c: Context<AppEnv>,
  schema: z.ZodType<T>,
  limit: number,
  { optional = false }: { optional?: boolean | undefined } = {},
): Promise<T> {
  const bytes = await readBody(c, limit);
  return parseWith(schema, optional && bytes.length === 0 ? {} : parseBody(bytes), "body");
}

export function parseBody(bytes: Uint8Array): unknown {
  return parseJson(parseText(bytes));
}

/** Throws an error with the reason and the position if the text is not JSON. */
export function parseJson(text: string): unknown {
  refuseExcess(text);
  try {
    return JSON.parse(text);
  } catch (cause) {
    const position = findJsonError(text);
    const before = text.slice(0, position);
    const line = before.split("\n").length;
    const column = position - before.lastIndexOf("\n");
    const found =
      position < text.length
        ? `${JSON.stringify(String.fromCodePoint(text.codePointAt(position) ?? 0))} is not expected there`
        : "it ends too early";
    const detail = `The body is not JSON: at position ${position} (line ${line}, column ${column}) ${found}.`;
    throw new SluiceError("invalid_request", detail, { position, line, column }, { cause });
  }
}

function refuseExcess(text: string): void {
  const excess = findJsonExcess(text, MAX_BODY_DEPTH);
  if (excess === "depth")
    throw new SluiceError(
      "invalid_request",
      `The body is nested more than ${MAX_BODY_DEPTH} levels deep. Send it flatter, or the nested part as text.`,
      { limit: MAX_BODY_DEPTH },
    );
  if (excess === "values")
    throw new SluiceError(
      "too_large",
      `The body holds more than ${MAX_JSON_VALUES} values. Send less at once.`,
      { limit: MAX_JSON_VALUES },
    );
}

/** Refuses bytes that are no UTF-8: replacement characters would change the text. */
function parseText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    const detail = "The body is not valid UTF-8. Send JSON in UTF-8.";
    throw new SluiceError("invalid_request", detail, {}, { cause });
  }
}

type Expected = "value" | "first value" | "key" | "first key" | "colon" | "rest";

/**
 * The position of the first error in a JSON text, which not every JavaScript engine reports. The scan keeps a stack of
 * its own, so that deep nesting cannot overflow the call stack.
 */
export function findJsonError(text: string): number {
  const closers: string[] = [];
  let expected: Expected = "value";
  let position = skipSpace(text, 0);
  while (position < text.length) {
    const char = text[position] as string;
    const closer = closers.at(-1);
    if (expected === "colon") {
      if (char !== ":") return position;
      position += 1;
      expected = "value";
    } else if (char === closer && expected !== "value" && expected !== "key") {
      closers.pop();
      position += 1;
      expected = "rest";
    } else if (expected === "rest") {
      if (closer === undefined || char !== ",") return position;
      position += 1;
      expected = closer === "}" ? "key" : "value";
    } else if (expected === "key" || expected === "first key") {
      const [end, isComplete] = scanString(text, position);
      if (!isComplete) return end;
      position = end;
      expected = "colon";
    } else if (char === "{" || char === "[") {
      closers.push(char === "{" ? "}" : "]");
      position += 1;
      expected = char === "{" ? "first key" : "first value";
    } else {
      const [end, isComplete] = char === '"' ? scanString(text, position) : scanWord(text, position);
      if (!isComplete) return end;
      position = end;
      expected = "rest";
    }
    position = skipSpace(text, position);
  }
  return text.length;
}

/** The end of a complete token, or the position at which it breaks off. */
type Scanned = readonly [position: number, isComplete: boolean];

function scanString(text: string, start: number): Scanned {
  if (text[start] !== '"') return [start, false];
  for (let position = start + 1; position < text.length; position++) {
    const char = text[position] as string;
    if (char === '"') return [position + 1, true];
    if (char < " ") return [position, false];
    if (char !== "\\") continue;
    ESCAPE.lastIndex = position;
    if (!ESCAPE.test(text)) return [Math.min(position + 1, text.length), false];
    position = ESCAPE.lastIndex - 1;
  }
  return [text.length, false];
}

function scanWord(text: string, start: number): Scanned {
  WORD.lastIndex = start;
  return WORD.test(text) ? [WORD.lastIndex, true] : [start, false];
}

const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const WORD = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const SPACE = /[ \t\r\n]*/y;

function skipSpace(text: string, position: number): number {
  SPACE.lastIndex = position;
  SPACE.test(text);
  return SPACE.lastIndex;
}
