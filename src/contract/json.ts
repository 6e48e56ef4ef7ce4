/** How deep the JSON of a client may be nested, whose every level a schema may walk. */
export const MAX_BODY_DEPTH = 128;
/** How deep that of an agent may be, which is only written down again. */
export const MAX_JSON_DEPTH = 1_000;
/** How many values it may hold: each may become an object, and each mistake an error of its own. */
export const MAX_JSON_VALUES = 500_000;

/** Which limit a JSON text exceeds, found in one pass that keeps nothing; whether it is JSON at all is not its question. */
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

/** `JSON.parse` for what an agent, a model or a client wrote: text beyond the limits is no JSON to us. */
export function parseOthersJson(text: string): unknown {
  const excess = findJsonExcess(text);
  if (excess === "depth") throw new SyntaxError(`nested more than ${MAX_JSON_DEPTH} levels deep`);
  if (excess === "values") throw new SyntaxError(`more than ${MAX_JSON_VALUES} values`);
  return JSON.parse(text);
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Where the string ends that starts here. Long ones, such as files in base64, are passed over by the engine itself. */
export function findStringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}
