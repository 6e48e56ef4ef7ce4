import { parseOthersJson } from "../contract/json.ts";

/** The JSON object that a text is, if it is one. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = parseOthersJson(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
