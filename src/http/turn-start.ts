import type { Engine } from "../sessions/port.ts";

/** Waits for a turn that is still in the queue; false once there is nothing left to end. */
export async function hasTurnStarted(
  engine: Engine,
  { session, turn }: { session: string; turn: string },
  signal: AbortSignal,
): Promise<boolean> {
  while (!signal.aborted) {
    const { turnId, ended, eventCount } = await engine.info(session);
    if (turnId === turn) return true;
    if (ended) return false;
    const inbox = await engine.inbox(session);
    if (!inbox.some((input) => input.turnId === turn)) {
      // It may have left the queue between the two looks.
      return (await engine.info(session)).turnId === turn;
    }
    await engine.log.moved(session, eventCount, { signal });
  }
  return false;
}
