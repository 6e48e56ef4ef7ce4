import { isIP } from "node:net";

export interface HostPort {
  /** In one spelling: lower case, ASCII, no brackets, no dot at the end, addresses in their usual form. */
  readonly host: string;
  readonly port: number | undefined;
}

/** Takes `host`, `host:port` and `[address]:port`; undefined for any other text. */
export function parseHostPort(text: string): HostPort | undefined {
  const match = /^(\[[\da-f:.]+\]|[^\s:/?#@[\]\\%<>^|]+)(?::(\d{1,5}))?$/i.exec(text);
  const host = match?.[1] === undefined ? undefined : toHost(match[1]);
  if (match === null || host === undefined) return undefined;
  if (match[2] === undefined) return { host, port: undefined };
  const port = Number(match[2]);
  return port >= 1 && port <= 65_535 ? { host, port } : undefined;
}

/** Whether a host is loopback. A sandbox reaches this machine's loopback only by ports that its allow list names. */
export function isLoopbackHost(host: string): boolean {
  if (host === "localhost" || host.endsWith(".localhost") || host === "::1") return true;
  return isIP(host) === 4 && host.startsWith("127.");
}

export function toAuthority(host: string, port: number): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Normalises by the URL standard, which turns 0x7f.1, 127.1 and 2130706433 into 127.0.0.1. */
function toHost(text: string): string | undefined {
  const url = `http://${text}/`;
  if (!URL.canParse(url)) return undefined;
  const { hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  return host === "" ? undefined : host;
}
