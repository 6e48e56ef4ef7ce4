import type { Launch, SessionSpec } from "../../contract/index.ts";

/** The session's skills in the common folder layout: `<folder>/<name>/SKILL.md` with front matter. */
export function skillFiles(folder: string, { skills }: SessionSpec): NonNullable<Launch["files"]> {
  if (!Array.isArray(skills)) return [];
  return skills.map(({ name, description, content }) => ({
    path: `${folder}/${name}/SKILL.md`,
    content: `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n${content}\n`,
  }));
}

/** A subset of TOML: tables of scalars, lists and tables. */
type TomlValue = string | number | boolean | readonly TomlValue[] | TomlTable;
export interface TomlTable {
  readonly [key: string]: TomlValue | undefined;
}

export function toToml(table: TomlTable, path: readonly string[] = []): string {
  const entries = Object.entries(table).filter(
    (entry): entry is [string, TomlValue] => entry[1] !== undefined,
  );
  const plain = entries.filter(([, value]) => !isTable(value));
  const head = path.length === 0 || plain.length === 0 ? "" : `[${path.map(toTomlString).join(".")}]\n`;
  const body = plain.map(([key, value]) => `${toTomlString(key)} = ${toScalar(value)}\n`).join("");
  const tables = entries.flatMap(([key, value]) => (isTable(value) ? [toToml(value, [...path, key])] : []));
  return [head + body, ...tables].filter((text) => text !== "").join("\n");
}

function isTable(value: TomlValue): value is TomlTable {
  return typeof value === "object" && !Array.isArray(value);
}

function toScalar(value: TomlValue): string {
  if (typeof value === "string") return toTomlString(value);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return `[${(value as readonly TomlValue[]).map(toScalar).join(", ")}]`;
  const pairs = Object.entries(value).flatMap(([key, inner]) =>
    inner === undefined ? [] : [`${toTomlString(key)} = ${toScalar(inner as TomlValue)}`],
  );
  return `{ ${pairs.join(", ")} }`;
}

/** A JSON string is a basic string of TOML, except for DEL, which JSON does not escape. */
export function toTomlString(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}
