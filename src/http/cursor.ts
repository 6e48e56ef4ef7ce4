import { SluiceError } from "../contract/index.ts";
import type { SessionRow } from "../log/port.ts";
import { cursorGone } from "../log/refusals.ts";
import type { Engine } from "../sessions/port.ts";

/** A session as a reader finds it; `until` is set once it has ended, where its log ends for good. */
export async function readSession(engine: Engine, id: string): Promise<{ row: SessionRow; until?: number }> {
  const { ended } = await engine.info(id);
  // Behind `info`, so that the head of an ended session is its last word.
  const row = await engine.log.find(id);
  if (!row) throw new SluiceError("session_not_found", `There is no session ${id}.`, { sessionId: id });
  return ended ? { row, until: row.head } : { row };
}

/** Where a reader starts that may have named no cursor: then at the oldest event that is kept. */
export function startAt(row: SessionRow, cursor: number | undefined): number {
  if (cursor !== undefined) assertCursor(row, cursor);
  return cursor ?? row.floor;
}

/** Tells readers of a trimmed log where it begins. */
export function toOldestHeader({ floor }: SessionRow): Record<string, string> {
  return floor > 0 ? { "sluice-oldest": String(floor + 1) } : {};
}

/** Says so before anything is sent: a cursor is served from exactly, or not at all. */
export function assertCursor(row: SessionRow, cursor: number): void {
  if (cursor < row.floor || cursor > row.head) throw cursorGone(row.id, cursor, row);
}
