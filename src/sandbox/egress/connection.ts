import type { Socket } from "node:net";
import type { Transform } from "node:stream";

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
      server.off("readable", yieldToServer).off("end", leave).off("close", leave);
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
    const yieldToServer = (): void => {
      if (server.readableLength > 0) finish(otherwise);
    };
    const leave = (): void => finish(otherwise);
    client.on("readable", look).on("end", leave).on("close", leave);
    server.on("readable", yieldToServer).on("end", leave).on("close", leave);
    look();
  });
}
