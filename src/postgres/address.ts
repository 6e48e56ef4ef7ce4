import { readFileSync } from "node:fs";
import { SluiceError } from "../contract/index.ts";

const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/** A database's address as the driver takes it. */
export interface Address {
  readonly host?: string;
  readonly port: number;
  readonly path?: string;
  readonly database: string;
  readonly user: string;
  readonly password?: string;
  readonly ssl: boolean | "prefer" | { readonly rejectUnauthorized: boolean; readonly ca?: string };
}

/**
 * Parses `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=FILE`. Other parameters are
 * refused: the driver would send them to the server, and a pooler refuses those.
 */
export function parseAddress(text: string): Address {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^postgres(?:ql)?:$/.test(url.protocol))
    throw refuse("A database URL looks like postgres://user:password@host:5432/name.");
  const database = decode(url.pathname.slice(1));
  const user = decode(url.username);
  if (database === "" || user === "")
    throw refuse("A database URL names a user and a database: postgres://user:password@host:5432/name.");
  const port = Number(url.port || 5432);
  const folder = url.searchParams.get("host");
  const host = decode(url.hostname).replaceAll(/^\[|\]$/g, "") || "localhost";
  for (const name of url.searchParams.keys())
    if (!["sslmode", "sslrootcert", "host"].includes(name))
      throw refuse(`A database URL may have sslmode, sslrootcert and host, and no ${name}.`);
  return {
    ...(folder?.startsWith("/") ? { path: `${folder}/.s.PGSQL.${port}` } : { host: folder ?? host }),
    port,
    database,
    user,
    ...(url.password !== "" && { password: decode(url.password) }),
    ssl: sslOf(url.searchParams),
  };
}

/** The address without its password, for people. */
export function nameOf(text: string): string {
  try {
    const { host, path, port, database } = parseAddress(text);
    return `${path ?? `${host}:${port}`}/${database}`;
  } catch {
    return "the given database";
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refuse("A database URL has a % that begins no escape. Write a plain % as %25.");
  }
}

function sslOf(parameters: URLSearchParams): Address["ssl"] {
  const mode = parameters.get("sslmode") ?? "prefer";
  const file = parameters.get("sslrootcert");
  if (!MODES.includes(mode)) throw refuse(`sslmode is one of ${MODES.join(", ")}.`);
  if (mode === "disable" || mode === "allow") return false;
  const isVerified = mode.startsWith("verify") || file !== null;
  if (mode === "prefer" && !isVerified) return "prefer";
  return { rejectUnauthorized: isVerified, ...(file !== null && { ca: readCertificate(file) }) };
}

function readCertificate(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw refuse(`The file ${file} of sslrootcert cannot be read (${(error as Error).message}).`);
  }
}

function refuse(detail: string): SluiceError {
  return new SluiceError("invalid_request", detail);
}
