import type { EventDraft, SluiceEvent } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { cutCollected } from "./long-texts.ts";
import { applyEvent, emptyFold, type SessionFold } from "./session-fold.ts";

const PAGE = 1_000;

/** The session's fold at the head of its log. It starts at the last snapshot, so it reads one turn at most. */
export async function loadFold(log: EventLog, row: SessionRow): Promise<SessionFold> {
  const { fold, at } = startOf(row);
  cutCollected(fold);
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

/** The sequence up to which a log may be trimmed without loss for its fold: the last snapshot. */
export function trimmableThrough(row: SessionRow): number {
  return snapshotOf(row)?.at ?? row.floor;
}

/** Whether the fold cannot be computed: events that it needs were trimmed, and no usable snapshot covers them. */
export function isPastLost(row: SessionRow): boolean {
  return row.floor > (snapshotOf(row)?.at ?? 0);
}

/** A damaged snapshot is ignored: the events give the same fold, only slower. */
function startOf(row: SessionRow): { fold: SessionFold; at: number } {
  const snapshot = snapshotOf(row);
  if (isPastLost(row)) return { fold: remainsOf(row, snapshot?.state), at: row.floor };
  return snapshot ? { fold: structuredClone(snapshot.state), at: snapshot.at } : { fold: emptyFold(), at: 0 };
}

/**
 * The fold of a session whose earlier events are lost. Only its process may still be open; the opening of the session
 * checks that.
 */
function remainsOf(row: SessionRow, before: SessionFold = emptyFold()): SessionFold {
  const { command: _command, ...known } = structuredClone(before);
  const processes = Math.max(known.processes, row.spool?.process ?? 0);
  const processOpen = row.active && processes > 0;
  const rest = { inbox: [], turn: null, open: {}, paused: false };
  return { ...known, ...rest, head: row.floor, started: true, processes, processOpen };
}

function snapshotOf({ snapshot }: SessionRow): { at: number; state: SessionFold } | undefined {
  return snapshot && isFold(snapshot.state, snapshot.at)
    ? { at: snapshot.at, state: snapshot.state }
    : undefined;
}

export function isFold(state: unknown, at: number): state is SessionFold {
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
