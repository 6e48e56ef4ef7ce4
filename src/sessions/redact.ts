import type { SessionSpec } from "../contract/index.ts";

export type Redact = (text: string) => string;

const SHORTEST_SECRET = 6;
const SECRET_NAME = /key|token|secret|password|credential|authorization/i;

/**
 * Takes known secret values out of a native line before anything is decoded from it, so that no event,
 * raw payload or blob can hold one. Deterministic: the same line and secrets give the same text.
 */
export function createRedact(secrets: ReadonlyMap<string, string>): Redact {
  const values = [...secrets]
    .filter(([, value]) => value.length >= SHORTEST_SECRET)
    // A secret may hold another one.
    .sort(([, a], [, b]) => b.length - a.length)
    .flatMap(([name, value]) => {
      const label = `[redacted:${name}]`;
      const escaped = JSON.stringify(value).slice(1, -1);
      return escaped === value
        ? [[value, label]]
        : [
            [value, label],
            [escaped, label],
          ];
    }) as [string, string][];
  if (values.length === 0) return (text) => text;
  return (text) => {
    let clean = text;
    for (const [value, label] of values) if (clean.includes(value)) clean = clean.replaceAll(value, label);
    return clean;
  };
}

/** Whether what has this name is to be kept from events. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** The secrets that a session was given, by name. */
export function secretsOf(spec: SessionSpec): Map<string, string> {
  const secrets = new Map<string, string>();
  collect(spec.env ?? {}, secrets);
  for (const server of Object.values(spec.mcp ?? {})) {
    collect(("env" in server ? server.env : undefined) ?? {}, secrets);
    collect(("headers" in server ? server.headers : undefined) ?? {}, secrets);
  }
  return secrets;
}

function collect(values: Record<string, string>, into: Map<string, string>): void {
  for (const [name, value] of Object.entries(values)) {
    if (!isSecretName(name)) continue;
    into.set(name, value);
    // "Bearer x" must not survive as "x".
    const bare = /^\S+\s+(\S+)$/.exec(value)?.[1];
    if (bare !== undefined) into.set(`${name} value`, bare);
  }
}
