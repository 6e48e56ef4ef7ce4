import type { Engine } from "../sessions/port.ts";

/** Ends a turn that its client has left. A turn that is still in the queue is ended as soon as it starts. */
export async function interruptTurn(
  engine: Engine,
  { session, turn, by }: { session: string; turn: string; by: string },
  signal: AbortSignal = new AbortController().signal,
): Promise<void> {
  if (await hasStarted(engine, { session, turn, signal }))
    await engine.interrupt(session, { by, turnId: turn, stop: true });
}

/** Waits for the start of a queued turn; false if the turn is over or `signal` aborts. */
async function hasStarted(
  engine: Engine,
  { session, turn, signal }: { session: string; turn: string; signal: AbortSignal },
): Promise<boolean> {
  while (!signal.aborted) {
    const { turnId, ended, eventCount } = await engine.info(session);
    if (turnId === turn) return true;
    if (ended) return false;
    const inbox = await engine.inbox(session);
    if (!inbox.some((input) => input.turnId === turn)) {
      // The turn may have left the queue between the two calls.
      return (await engine.info(session)).turnId === turn;
    }
    await engine.log.moved(session, eventCount, { signal });
  }
  return false;
}
