import { type SessionSpec, SluiceError } from "../../contract/index.ts";
import { type Fields, isRecord } from "../fields.ts";

/** A literal name or address. A `*` in a URL would allow a whole domain. */
const HOST = /^(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9])?\.?|\[[0-9a-f:.]+\])$/i;
/** One label of a host name, such as a region or a resource. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * The host and port of a base URL. The entry allows a private network only if the host is an address or `localhost`.
 */
export function hostOf(url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return [];
  const { hostname, port, protocol } = new URL(url);
  if (!HOST.test(hostname)) return [];
  const isPlain = protocol === "http:" || protocol === "ws:";
  return [`${hostname}:${port || (isPlain ? 80 : 443)}`];
}

/** Refuses a value that would make another host name, such as a region with a dot or a slash. */
export function requireLabel(variable: string, value: string): string {
  if (LABEL.test(value)) return value;
  throw new SluiceError(
    "invalid_request",
    `${variable} has to be one word of a host's name: lower case letters, digits and hyphens, such as us-east-1`,
    { variable },
  );
}

export function vertexHost(variable: string, location: string): string {
  const label = requireLabel(variable, location);
  if (label === "global") return "aiplatform.googleapis.com";
  if (label === "us" || label === "eu") return `aiplatform.${label}.rep.googleapis.com`;
  return `${label}-aiplatform.googleapis.com`;
}

/** The hosts of a session's MCP servers, for the allow list of an isolated agent. */
export function mcpHosts(spec: SessionSpec): string[] {
  return Object.values(spec.mcp ?? {}).flatMap((server) => ("url" in server ? hostOf(server.url) : []));
}

/** Stands in for a refresh token, if a CLI requires one. */
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

export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** The expiry of a JSON web token. Its signature is not checked. */
export function tokenExpiry(token: string): number | undefined {
  const [, payload = ""] = token.split(".");
  const seconds = parseLogin(Buffer.from(payload, "base64url").toString("utf8"))?.["exp"];
  return typeof seconds === "number" ? seconds * 1000 : undefined;
}
