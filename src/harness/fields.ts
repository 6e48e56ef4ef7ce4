import { parseOthersJson } from "../contract/json.ts";

/** An object that another program wrote. Its unknown fields are ignored: they change from version to version. */
export type Fields = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object of a JSON text; undefined for any other text. */
export function parseRecord(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = parseOthersJson(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function toFields(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

export function toList(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(toFields) : [];
}

export function toText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function toCount(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}
