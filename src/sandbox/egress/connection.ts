import { connect, isIP, type ListenOptions, type NetConnectOpts, type Server, type Socket } from "node:net";
import type { Transform } from "node:stream";

/** Opens a connection. From then on an error destroys it. */
export function openConnection(to: NetConnectOpts): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(to);
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject).on("error", () => socket.destroy());
      resolve(socket);
    });
  });
}

/** Resolves when the server listens. */
export function listen(server: Server, at: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(at, resolve);
  });
}

/** Reads a connection up to a terminator, which is dropped, and leaves the bytes after it unread. */
export function readHead(
  socket: Socket,
  options: { terminator: string; limit: number; timeoutMs: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    let head = Buffer.alloc(0);
    const timer = setTimeout(() => finish(new Error("it did not answer in time")), options.timeoutMs);
    const look = (): void => {
      for (
        let chunk = socket.read() as Buffer | null;
        chunk !== null;
        chunk = socket.read() as Buffer | null
      ) {
        head = Buffer.concat([head, chunk]);
        const at = head.indexOf(options.terminator);
        if (at === -1 && head.length <= options.limit) continue;
        if (at === -1 || at > options.limit) return finish(new Error("its first bytes are too long"));
        const rest = head.subarray(at + options.terminator.length);
        finish();
        if (rest.length > 0) socket.unshift(rest);
        return resolve(head.toString("latin1", 0, at));
      }
    };
    const fail = (): void => finish(new Error("it closed the connection"));
    const finish = (error?: Error): void => {
      clearTimeout(timer);
      socket.off("readable", look).off("end", fail).off("close", fail).off("error", finish);
      if (error !== undefined) reject(error);
    };
    socket.on("readable", look).on("end", fail).on("close", fail).on("error", finish);
  });
}

const IDLE_MS = 3_600_000;

/**
 * Joins two connections: bytes and half-closes of each go to the other, and both end together, after pending data. Data
 * from `other` goes through `inward` if it is given.
 */
export function splice(one: Socket, other: Socket, inward?: Transform): void {
  const end = (): void => {
    one.destroy();
    other.destroy();
    inward?.destroy();
  };
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.setKeepAlive(true, 60_000);
    from.setTimeout(IDLE_MS, end);
    from.on("error", end);
    from.on("close", () => {
      if (!from.readableEnded) to.destroy();
    });
  }
  one.pipe(other);
  if (inward === undefined) other.pipe(one);
  else other.pipe(inward.on("error", end)).pipe(one);
  // A side that closed before these listeners were added emits no further event.
  if (one.destroyed || other.destroyed) end();
}

interface PeekOptions<T> {
  /** Decides by the bytes so far; undefined where they are too few. */
  readonly decide: (bytes: Buffer) => T | undefined;
  /** The outcome if the server sends first, or a side closes. */
  readonly otherwise: T;
}

/** Decides by a client's first bytes, and leaves them unread. */
export function peek<T>(client: Socket, server: Socket, { decide, otherwise }: PeekOptions<T>): Promise<T> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    const finish = (outcome: T): void => {
      client.off("readable", look).off("end", leave).off("close", leave);
      server.off("readable", onServerData).off("end", leave).off("close", leave);
      // Bytes cannot be put back into an ended stream. Such a client left in the middle of its first message.
      if (bytes.length > 0 && client.readableEnded) client.destroy();
      else if (bytes.length > 0) client.unshift(bytes);
      resolve(outcome);
    };
    const look = (): void => {
      const chunk = client.read() as Buffer | null;
      if (chunk === null) return;
      bytes = Buffer.concat([bytes, chunk]);
      const outcome = decide(bytes);
      if (outcome !== undefined) finish(outcome);
    };
    const onServerData = (): void => {
      if (server.readableLength > 0) finish(otherwise);
    };
    const leave = (): void => finish(otherwise);
    client.on("readable", look).on("end", leave).on("close", leave);
    server.on("readable", onServerData).on("end", leave).on("close", leave);
    look();
  });
}

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

/** The eight groups of an IPv6 address, in hex. */
export function toGroups(address: string): string[] {
  // The URL standard has one spelling for each address, without an IPv4 part.
  const text = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [before = "", after] = text.split("::");
  const head = before === "" ? [] : before.split(":");
  if (after === undefined) return head;
  const tail = after === "" ? [] : after.split(":");
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => "0"), ...tail];
}
