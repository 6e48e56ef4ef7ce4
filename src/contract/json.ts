/** The maximum depth of a client's JSON, which schemas walk. */
export const MAX_BODY_DEPTH = 128;
/** The maximum depth of an agent's JSON, which is only stored. */
export const MAX_JSON_DEPTH = 1_000;
/** The maximum count of values. Each may become an object in memory, or an error of a schema. */
export const MAX_JSON_VALUES = 500_000;

/** The limit that a JSON text exceeds. One pass without allocations; does not validate the text. */
export function findJsonExcess(text: string, maxDepth = MAX_JSON_DEPTH): "depth" | "values" | undefined {
  if (text.length <= maxDepth) return undefined;
  let depth = 0;
  let values = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = findStringEnd(text, at);
        break;
      case OPENING_BRACKET:
      case OPENING_BRACE:
        depth += 1;
        values += 1;
        if (depth > maxDepth) return "depth";
        break;
      case CLOSING_BRACKET:
      case CLOSING_BRACE:
        depth -= 1;
        break;
      case COMMA:
        values += 1;
        break;
      default:
    }
    if (values > MAX_JSON_VALUES) return "values";
  }
  return undefined;
}

/** `JSON.parse` for untrusted text. It throws a `SyntaxError` also for a text beyond the limits. */
export function parseOthersJson(text: string): unknown {
  const excess = findJsonExcess(text);
  if (excess === "depth") throw new SyntaxError(`nested more than ${MAX_JSON_DEPTH} levels deep`);
  if (excess === "values") throw new SyntaxError(`more than ${MAX_JSON_VALUES} values`);
  return JSON.parse(text);
}

/** The value of a JSON text by `parseOthersJson`, or `fallback` for text that is not JSON. */
export function parseJsonOr(text: string, fallback: unknown): unknown {
  try {
    return parseOthersJson(text);
  } catch {
    return fallback;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** The end of the string that starts here. `indexOf` keeps long strings, such as base64, fast. */
export function findStringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}
