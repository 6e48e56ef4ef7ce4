import type { Socket } from "node:net";

const IDLE_MS = 3_600_000;

/** Makes one connection of two, half-closed ends included; neither outlives the other by more than what it still owes. */
export function splice(one: Socket, other: Socket): void {
  const end = (): void => {
    one.destroy();
    other.destroy();
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
    from.pipe(to);
  }
  // A side that went away before it was listened to says so no more.
  if (one.destroyed || other.destroyed) end();
}
