import { SluiceError } from "../contract/index.ts";
import type { SessionRow } from "../log/port.ts";
import type { Engine } from "../sessions/port.ts";

/** A session as a reader finds it; `until` is set once it has ended, where its log ends for good. */
export async function readSession(engine: Engine, id: string): Promise<{ row: SessionRow; until?: number }> {
  const { ended } = await engine.info(id);
  // Behind `info`, so that the head of an ended session is its last word.
  const row = await engine.log.find(id);
  if (!row) throw new SluiceError("session_not_found", `There is no session ${id}.`, { sessionId: id });
  return ended ? { row, until: row.head } : { row };
}

/** Says so before anything is sent: a cursor is served from exactly, or not at all. */
export function assertCursor({ head, floor }: SessionRow, cursor: number): void {
  if (cursor >= floor && cursor <= head) return;
  const detail =
    cursor < floor
      ? `The events up to ${floor} were removed, so ${cursor} cannot be read on from. Start again with after=${floor}.`
      : `The log ends at ${head}, so ${cursor} is a cursor of another log. Start again with after=${floor}.`;
  throw new SluiceError("cursor_gone", detail, { cursor, floor, head });
}
