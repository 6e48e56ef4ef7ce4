import { type ContentPart, isRecord, parseJsonOr } from "../../contract/index.ts";

/** The text of all text parts. */
export function toText(content: readonly ContentPart[]): string {
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
}

/** One line per part: a text part as it is, any other part as JSON. */
export function toLines(content: readonly ContentPart[]): string {
  return content.map((part) => (part.type === "text" ? part.text : JSON.stringify(part))).join("\n");
}

/** The arguments of a tool call; text that is not JSON stays text. */
export function parseArguments(text: string): unknown {
  return text === "" ? {} : parseJsonOr(text, text);
}

/** A record as it is; any other value has no fields. */
export function toFields(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}
