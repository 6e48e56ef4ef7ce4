import type { EventDraft, SluiceEvent } from "../contract/index.ts";
import type { EventLog, SessionRow } from "../log/port.ts";
import { applyEvent, emptyFold, type SessionFold } from "./fold.ts";

const PAGE = 1_000;

/** The session's fold at the head of its log: from the last snapshot on, so that it costs one turn at most. */
export async function loadFold(log: EventLog, row: SessionRow): Promise<SessionFold> {
  const { fold, at } = startOf(row);
  let after = at;
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

/** A snapshot that was damaged is none: the log itself says the same, only slower. */
function startOf({ snapshot, floor }: SessionRow): { fold: SessionFold; at: number } {
  if (snapshot && isFold(snapshot.state, snapshot.at))
    return { fold: structuredClone(snapshot.state), at: snapshot.at };
  return { fold: { ...emptyFold(), head: floor }, at: floor };
}

function isFold(state: unknown, at: number): state is SessionFold {
  if (typeof state !== "object" || state === null) return false;
  const found = state as Record<string, unknown>;
  const isLike = ([name, empty]: [string, unknown]): boolean =>
    empty === null ? name in found : kindOf(found[name]) === kindOf(empty);
  return found["head"] === at && Object.entries(emptyFold()).every(isLike);
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
