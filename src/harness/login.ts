/** What stands where a CLI demands a field that would renew its login. */
export const WORTHLESS = "kept-outside-of-the-sandbox";

type Fields = Readonly<Record<string, unknown>>;

/** A login file is written by another program, or by an agent: anything may be in it. */
export function parseLogin(content: string): Fields | undefined {
  try {
    return asFields(JSON.parse(content));
  } catch {
    return undefined;
  }
}

export function asFields(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

/** Only the fields of these names, and only those that are there. */
export function pick(fields: Fields, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    names.flatMap((name) => (Object.hasOwn(fields, name) ? [[name, fields[name]]] : [])),
  );
}

export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** When a JSON web token ends. It is only read: who made it does not matter here. */
export function tokenExpiry(token: string): number | undefined {
  const [, payload = ""] = token.split(".");
  const seconds = parseLogin(Buffer.from(payload, "base64url").toString("utf8"))?.["exp"];
  return typeof seconds === "number" ? seconds * 1000 : undefined;
}
