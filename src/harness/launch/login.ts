import { type Fields, isRecord } from "../fields.ts";

/** In place of a refresh token, where a CLI requires one. */
export const NO_REFRESH_TOKEN = "kept-outside-of-the-sandbox";

/** The fields of a login file. Another program or an agent wrote it, so it may hold anything. */
export function parseLogin(content: string): Fields | undefined {
  try {
    return asFields(JSON.parse(content));
  } catch {
    return undefined;
  }
}

export function asFields(value: unknown): Fields | undefined {
  return isRecord(value) ? value : undefined;
}

/** The existing fields of these names. */
export function pick(fields: Fields, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    names.flatMap((name) => (Object.hasOwn(fields, name) ? [[name, fields[name]]] : [])),
  );
}

export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** When a JSON web token expires. Its signature is not checked. */
export function tokenExpiry(token: string): number | undefined {
  const [, payload = ""] = token.split(".");
  const seconds = parseLogin(Buffer.from(payload, "base64url").toString("utf8"))?.["exp"];
  return typeof seconds === "number" ? seconds * 1000 : undefined;
}
