import type { Socket } from "node:net";
import type { Transform } from "node:stream";

const IDLE_MS = 3_600_000;

/**
 * Makes one connection of two, half-closed ends included; neither outlives the other by more than what it still owes.
 * What `other` sends goes through `inward`, where there is one.
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
  // A side that went away before it was listened to says so no more.
  if (one.destroyed || other.destroyed) end();
}
