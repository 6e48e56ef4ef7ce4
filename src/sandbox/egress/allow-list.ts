import { isIP } from "node:net";
import { SluiceError } from "../../contract/errors.ts";
import { isLoopbackHost, parseHostPort, toAuthority } from "./connection.ts";

/** One parsed entry of an allow list. */
export interface HostPattern {
  /** For a wildcard, the domain after `*.`; empty for `*`, which is every public host. */
  readonly host: string;
  readonly wildcard: boolean;
  /** Any port if it is left out. */
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
  if (host === "0.0.0.0" || host === "::") throw notAPattern(text, `${host} is no address to connect to`);
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

/** Names that may lie in a private network. `*` would open all of it, and an address needs no such entry. */
export function parsePrivateNames(texts: readonly string[] = []): HostPattern[] {
  return texts.map((text) => {
    const pattern = parseHostPattern(text);
    if (pattern.host === "") throw notAPrivateName(text, "it stands for every host");
    if (isIP(pattern.host) === 0 && !isLoopbackHost(pattern.host)) return pattern;
    throw notAPrivateName(text, "it is an address already; name it with its port in allow");
  });
}

/** The host and port of each URL, for an allow list. */
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

/** Whether an allow list reaches a host on at least one port; for `*.domain`, at least one host of the domain. */
export function permits(allowed: readonly string[], host: string): boolean {
  const wanted = host.toLowerCase();
  /** With its leading dot. */
  const domain = wanted.startsWith("*.") ? wanted.slice(1) : undefined;
  return parseHostPatterns(allowed).some((pattern) => {
    if (pattern.wildcard && pattern.host === "") return true;
    if (domain === undefined)
      return pattern.wildcard ? wanted.endsWith(`.${pattern.host}`) : pattern.host === wanted;
    // The two overlap: the pattern covers the domain, or lies below it.
    return (pattern.wildcard && domain.endsWith(`.${pattern.host}`)) || pattern.host.endsWith(domain);
  });
}

/** `private` allows the host to have an address in the network of this machine, too. */
type Verdict = "refused" | "allowed" | "private";

export interface HostRules {
  readonly patterns: readonly HostPattern[];
  /** Names that may lie in a private network, where `patterns` allow them. */
  readonly privates?: readonly HostPattern[] | undefined;
}

export function judge({ patterns, privates = [] }: HostRules, host: string, port: number): Verdict {
  const isListed = (pattern: HostPattern): boolean =>
    (pattern.port === undefined || pattern.port === port) && covers(pattern, host);
  const listed = patterns.filter(isListed);
  if (listed.length === 0) return "refused";
  // A name may resolve to any address, so only an entry that names an address or `localhost`, with its port, counts.
  const isAddress = isIP(host) !== 0 || isLoopbackHost(host);
  const isNamed = isAddress && listed.some(({ wildcard, port: named }) => !wildcard && named !== undefined);
  return isNamed || (!isAddress && privates.some(isListed)) ? "private" : "allowed";
}

/** Whether an entry allows this port of the host by its number. It opens the port for any protocol. */
export function namesPort({ patterns }: HostRules, host: string, port: number): boolean {
  return patterns.some((pattern) => pattern.port === port && covers(pattern, host));
}

function covers(pattern: HostPattern, host: string): boolean {
  if (!pattern.wildcard) return pattern.host === host;
  // `*` covers every host here. Its address is checked after the lookup.
  if (pattern.host === "") return true;
  return isIP(host) === 0 && host.endsWith(`.${pattern.host}`);
}

/** A port inside that forwards to the same port of this machine. */
export interface Tunnel {
  /** The address to listen on, inside. */
  readonly address: string;
  readonly port: number;
  /** The `host:port` that the guest asks the egress host for. */
  readonly target: string;
}

export function toTunnels(patterns: readonly HostPattern[]): Tunnel[] {
  const tunnels = new Map<string, Tunnel>();
  for (const { host, port } of patterns) {
    if (port === undefined || !isLoopbackHost(host)) continue;
    const target = toAuthority(host, port);
    for (const address of host.endsWith("localhost") ? ["127.0.0.1", "::1"] : [host]) {
      const key = toAuthority(address, port);
      // An entry that names the address itself precedes one by `localhost`.
      if (!tunnels.has(key) || key === target) tunnels.set(key, { address, port, target });
    }
  }
  return [...tunnels.values()];
}
