import { SluiceError } from "../contract/index.ts";

/** The codes of a connection that broke or could not be made; the outcome of its statement is unknown. */
const BROKEN = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_ENDED",
  "CONNECTION_DESTROYED",
  "CONNECT_TIMEOUT",
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "ENOENT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EAI_AGAIN",
]);

/** Codes of PostgreSQL: the server shuts down, starts, has no free connection, or became a standby. */
const AWAY = /^(?:08|57P0[1-5]|53300|25006)/;

/** Codes of PostgreSQL: a wrong user or password, an unknown database, a missing right. */
const REFUSED = /^(?:28|3D000|42501)/;

/** Whether the database is away. A statement that failed so may have been committed. */
export function isAway(error: unknown): boolean {
  if (error instanceof SluiceError) return error.code === "storage_unavailable";
  const code = codeOf(error);
  return code !== undefined && (BROKEN.has(code) || AWAY.test(code));
}

/** Whether PostgreSQL gave up one of two transactions that waited for each other. Nothing of it was stored. */
export function isDeadlock(error: unknown): boolean {
  return ["40001", "40P01"].includes(codeOf(error) ?? "");
}

export function isDuplicate(error: unknown): boolean {
  return codeOf(error) === "23505";
}

/** Maps a failure of PostgreSQL or of the way to it to the error table. `name` is the address without a password. */
export function toSluiceError(error: unknown, name: string): unknown {
  if (error instanceof SluiceError) return error;
  const code = codeOf(error);
  if (code === undefined) return error;
  const facts = { database: name, code };
  const message = error instanceof Error ? error.message : String(error);
  // The driver's own error holds the parameters, and with them the texts of sessions.
  const cause = { cause: Object.assign(new Error(message), { code }) };
  if (code === "25006") {
    const detail = `The database ${name} can only be read: it is a standby, or set to read-only. Name the primary server.`;
    return new SluiceError("storage_unavailable", detail, facts, cause);
  }
  if (isAway(error)) {
    const detail = `The database ${name} cannot be reached (${message}). Start it, or check the address and the network; then try again.`;
    return new SluiceError("storage_unavailable", detail, facts, cause);
  }
  if (code === "53100") {
    const detail = `The disk of the database ${name} is full: free space there and try again. Nothing was lost, and nothing of this request was stored.`;
    return new SluiceError("storage_full", detail, facts, cause);
  }
  if (code === "22021" || code === "22P05") {
    const detail = `The database ${name} cannot store a text with the character U+0000. Send the request without it.`;
    return new SluiceError("invalid_request", detail, facts, cause);
  }
  if (REFUSED.test(code)) {
    const detail = `The database ${name} refuses the user: ${message}. Check the name and the password in the URL, and the user's rights: it needs CONNECT and CREATE on the database.`;
    return new SluiceError("permission_denied", detail, facts, cause);
  }
  const detail = `The database ${name} failed: ${message} (${code}). Nothing of this request was stored.`;
  return new SluiceError("internal", detail, facts, cause);
}

export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
