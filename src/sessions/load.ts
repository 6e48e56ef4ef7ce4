import type { EventDraft, SluiceEvent } from "../contract/index.ts";
import type { EventLog, SessionRow } from "../log/port.ts";
import { applyEvent, emptyFold, type SessionFold } from "./fold.ts";

const PAGE = 1_000;

/** The session's fold at the head of its log: from the last snapshot on, so that it costs one turn at most. */
export async function loadFold(log: EventLog, row: SessionRow): Promise<SessionFold> {
  const fold = row.snapshot ? structuredClone(row.snapshot.state as SessionFold) : emptyFold();
  let after = row.snapshot?.at ?? row.floor;
  while (after < row.head) {
    const events = await log.read(row.id, { after, limit: PAGE });
    for (const stored of events) {
      const event = JSON.parse(stored.body) as SluiceEvent;
      applyEvent(fold, event as EventDraft, event.sequence, Date.parse(event.time));
      after = event.sequence;
    }
    if (events.length === 0) break;
  }
  return fold;
}
