/** The CLI's own payloads change from version to version: what is needed is read, the rest is left alone. */
export type Fields = Readonly<Record<string, unknown>>;

export function toFields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
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

/** The native id of the sub-agent's call under which a line was said. */
export function parentOf(line: Fields): string | undefined {
  return toText(line["parent_tool_use_id"]) || undefined;
}
