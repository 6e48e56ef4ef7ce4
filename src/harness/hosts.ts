import { type SessionSpec, SluiceError } from "../contract/index.ts";

/** A name or an address as it is: a URL may hold `*`, and an allow list would take that for a whole domain. */
const HOST = /^(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9])?\.?|\[[0-9a-f:.]+\])$/i;
/** What stands between two dots of a host's name, and so a region or a resource that goes into one. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The host of a base URL with its one port. That opens no way into a private network, unless the host is an address or `localhost`. */
export function hostOf(url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return [];
  const { hostname, port, protocol } = new URL(url);
  if (!HOST.test(hostname)) return [];
  const isPlain = protocol === "http:" || protocol === "ws:";
  return [`${hostname}:${port || (isPlain ? 80 : 443)}`];
}

/** Refuses what would make another host's name of it, such as a region with a dot or a slash. */
export function requireLabel(variable: string, value: string): string {
  if (LABEL.test(value)) return value;
  throw new SluiceError(
    "invalid_request",
    `${variable} has to be one word of a host's name: lower case letters, digits and hyphens, such as us-east-1`,
    { variable },
  );
}

/** Where Vertex AI serves a location; each of them has a host of its own. */
export function vertexHost(variable: string, location: string): string {
  const label = requireLabel(variable, location);
  if (label === "global") return "aiplatform.googleapis.com";
  if (label === "us" || label === "eu") return `aiplatform.${label}.rep.googleapis.com`;
  return `${label}-aiplatform.googleapis.com`;
}

/** Where the MCP servers of a session are, so that an isolated agent reaches them. */
export function mcpHosts(spec: SessionSpec): string[] {
  return Object.values(spec.mcp ?? {}).flatMap((server) => ("url" in server ? hostOf(server.url) : []));
}
