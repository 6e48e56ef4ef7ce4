/**
 * The CLI takes the text of an MCP result that happens to be JSON for its structured content, and then fails on it
 * where it is no object, such as "42". Part of the prelude.
 */
export function mendMcpResults(): void {
  interface Message {
    jsonrpc?: unknown;
    result?: { content?: { text?: unknown }[]; structuredContent?: unknown } | null;
  }
  const { parse } = JSON;

  const mend = <T>(value: T): T => {
    const message = value as Message | null;
    const result = message?.jsonrpc === "2.0" ? message.result : undefined;
    const text = Array.isArray(result?.content) ? result.content[0]?.text : undefined;
    if (!result || typeof text !== "string" || result.structuredContent !== undefined) return value;
    try {
      const meant: unknown = parse(text);
      if (typeof meant === "object" && meant !== null && !Array.isArray(meant)) return value;
    } catch {
      return value;
    }
    // Something is there already, so it does not look for more.
    result.structuredContent = {};
    return value;
  };

  JSON.parse = (text, reviver) => mend(parse(text, reviver));
  const { json } = Response.prototype;
  Response.prototype.json = async function (this: Response) {
    return mend(await json.call(this));
  };
}
