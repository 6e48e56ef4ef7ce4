import { isIP } from "node:net";
import { SluiceError } from "../../contract/errors.ts";
import { isLoopbackHost, parseHostPort, toAuthority } from "./hostPort.ts";

/** One entry of an allow list, understood. */
export interface HostPattern {
  /** For a wildcard: the domain behind `*.`, and nothing where every public host is meant. */
  readonly host: string;
  readonly wildcard: boolean;
  /** Any port where there is none. */
  readonly port?: number;
}

/** Takes `host`, `host:port`, `*.domain`, `*.domain:port`, and `*` for every public host; loopback only with its port. */
export function parseHostPattern(text: string): HostPattern {
  if (text === "*") return { host: "", wildcard: true };
  const wildcard = text.startsWith("*.");
  const parsed = parseHostPort(wildcard ? text.slice(2) : text);
  if (parsed === undefined || parsed.host.includes("*")) {
    throw notAPattern(text, toMistake(text));
  }
  const { host, port } = parsed;
  if (wildcard && isIP(host) !== 0) throw notAPattern(text, "a wildcard stands before a domain");
  if (isUnspecified(host)) throw notAPattern(text, `${host} is no address to connect to`);
  if (isLoopbackHost(host)) {
    if (wildcard) throw notAPattern(text, "a wildcard cannot stand for this machine");
    if (port === undefined) throw notAPattern(text, "this machine is named with a port", `${host}:8080`);
  }
  return port === undefined ? { host, wildcard } : { host, wildcard, port };
}

/** The patterns of several lists, each once. */
export function parseHostPatterns(...lists: readonly (readonly string[] | undefined)[]): HostPattern[] {
  const patterns = new Map<string, HostPattern>();
  for (const text of lists.flatMap((list) => list ?? [])) {
    const pattern = parseHostPattern(text);
    patterns.set(`${pattern.wildcard} ${pattern.host} ${pattern.port}`, pattern);
  }
  return [...patterns.values()];
}

/** Names that may lie in a private network. `*` would open all of it, and an address needs no such word. */
export function parsePrivateNames(texts: readonly string[] = []): HostPattern[] {
  return texts.map((text) => {
    const pattern = parseHostPattern(text);
    if (pattern.host === "") throw notAPrivateName(text, "it stands for every host");
    if (isIP(pattern.host) === 0 && !isLoopbackHost(pattern.host)) return pattern;
    throw notAPrivateName(text, "it is a place already; name it with its port in allow");
  });
}

/** What has to be allowed for these URLs to be reachable: host and port, never what else they hold. */
export function toHosts(urls: Iterable<string | URL>): string[] {
  const hosts = new Set<string>();
  for (const url of urls) {
    const { hostname, port, protocol } = new URL(url);
    const plain = protocol === "http:" || protocol === "ws:";
    const host = hostname.replace(/^\[|\]$/g, "");
    hosts.add(toAuthority(host, port === "" ? (plain ? 80 : 443) : Number(port)));
  }
  return [...hosts];
}

function isUnspecified(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

function toMistake(text: string): string {
  if (text.includes("://")) return "it is a URL; name only its host";
  if (text.includes("*")) return "a wildcard stands only at the beginning, as *.domain, or alone";
  if (text.includes("/")) return "it has a path or a mask; name only a host";
  return "it is no host name, address or host with a port from 1 to 65535";
}

function notAPrivateName(text: string, mistake: string): SluiceError {
  const detail = `The network's list of private names cannot hold ${JSON.stringify(text)}: ${mistake}. Write for example db.corp.example or *.corp.example.`;
  return new SluiceError("invalid_request", detail, { host: text });
}

function notAPattern(text: string, mistake: string, example?: string): SluiceError {
  const examples =
    example ?? "api.example.com, *.example.com, api.example.com:8443, 127.0.0.1:8080 or [::1]:8080";
  const detail = `The network's allow list cannot hold ${JSON.stringify(text)}: ${mistake}. Write for example ${examples}.`;
  return new SluiceError("invalid_request", detail, { host: text });
}
