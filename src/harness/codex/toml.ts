/** The little of TOML that Codex's configuration needs: tables of scalars, lists and tables. */
export type TomlValue = string | number | boolean | readonly TomlValue[] | TomlTable;
export interface TomlTable {
  readonly [key: string]: TomlValue | undefined;
}

export function toToml(table: TomlTable, path: readonly string[] = []): string {
  const entries = Object.entries(table).filter(
    (entry): entry is [string, TomlValue] => entry[1] !== undefined,
  );
  const plain = entries.filter(([, value]) => !isTable(value));
  const head = path.length === 0 || plain.length === 0 ? "" : `[${path.map(toText).join(".")}]\n`;
  const body = plain.map(([key, value]) => `${toText(key)} = ${toScalar(value)}\n`).join("");
  const tables = entries.flatMap(([key, value]) => (isTable(value) ? [toToml(value, [...path, key])] : []));
  return [head + body, ...tables].filter((text) => text !== "").join("\n");
}

function isTable(value: TomlValue): value is TomlTable {
  return typeof value === "object" && !Array.isArray(value);
}

function toScalar(value: TomlValue): string {
  if (typeof value === "string") return toText(value);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return `[${(value as readonly TomlValue[]).map(toScalar).join(", ")}]`;
  const pairs = Object.entries(value).flatMap(([key, inner]) =>
    inner === undefined ? [] : [`${toText(key)} = ${toScalar(inner as TomlValue)}`],
  );
  return `{ ${pairs.join(", ")} }`;
}

/** JSON's escapes are TOML's, but for the one control character that JSON leaves as it is. */
function toText(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}
