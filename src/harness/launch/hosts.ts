import { type SessionSpec, SluiceError } from "../../contract/index.ts";

/** A literal name or address. A `*` of a URL would be a whole domain in an allow list. */
const HOST = /^(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9])?\.?|\[[0-9a-f:.]+\])$/i;
/** One label of a host name, such as a region or a resource. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The host and port of a base URL. It opens a private network only where the host is an address or `localhost`. */
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

/** The host of Vertex AI for a location. */
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
