import { findJsonExcess, MAX_JSON_DEPTH, MAX_JSON_VALUES, type SpoolLine } from "../contract/index.ts";
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

/** The objects of a list. Entries of other types are left out. */
export function toRecords(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

/** The entries of a list as objects. Those of other types become empty. */
export function toList(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(toFields) : [];
}

/** The fields with these names, as far as they exist. */
export function pick(fields: Fields, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    names.flatMap((name) => (Object.hasOwn(fields, name) ? [[name, fields[name]]] : [])),
  );
}

/** The fields without those that are undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

/** Splits a list of names at its white space. */
export function toNames(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

export function asText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function toText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function toCount(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}

/** The JSON object of a line, or the reason why there is none, for `unparsedFact`. */
export function parseObject(line: SpoolLine): Record<string, unknown> | string {
  if (line.damage !== undefined) {
    const why = line.damage.reason === "utf8" ? "is not valid UTF-8" : "is too long";
    return `a line of ${line.damage.bytes} bytes ${why}`;
  }
  const excess = findJsonExcess(line.text);
  if (excess === "depth") return `the line is nested more than ${MAX_JSON_DEPTH} levels deep`;
  if (excess === "values") return `the line holds more than ${MAX_JSON_VALUES} values`;
  try {
    const value: unknown = JSON.parse(line.text);
    if (isRecord(value)) return value;
  } catch {
    // The caller gets the reason below.
  }
  return "the line is not a JSON object";
}
