import type { SluiceEvent } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { trimmableThrough } from "../fold/load.ts";

/** Trims the oldest events of a session, but none that its fold needs. Returns whether any was trimmed. */
export async function trimSession(log: EventLog, row: SessionRow, through: number): Promise<boolean> {
  const end = Math.min(through, trimmableThrough(row));
  if (end <= row.floor) return false;
  await log.trim(row.id, end);
  return true;
}

/** The last event before the time, by binary search; the floor where there is none. */
export async function lastEventBefore(log: EventLog, row: SessionRow, time: number): Promise<number> {
  const isOlder = async (sequence: number): Promise<boolean> => {
    const [stored] = await log.read(row.id, { after: sequence - 1, limit: 1 });
    return stored !== undefined && Date.parse((JSON.parse(stored.body) as SluiceEvent).time) < time;
  };
  let older = row.floor;
  let newer = row.head + 1;
  // In most sessions not even the first event is older.
  let probe = older + 1;
  while (newer - older > 1) {
    if (await isOlder(probe)) older = probe;
    else newer = probe;
    probe = (older + newer) >> 1;
  }
  return older;
}

const MARKS = new Set(["input.accepted", "turn.ended"] as const);

/**
 * Where a log may be trimmed so that the rest begins between two turns and includes the last turn: the last end of a
 * turn up to `through` with an empty queue and with a turn behind it. The floor where there is none.
 */
export async function restUpTo(log: EventLog, row: SessionRow, through: number): Promise<number> {
  const unended = new Set<string>();
  let ended = row.floor;
  let rest = row.floor;
  for (let after = row.floor; through > row.floor;) {
    const page = await log.read(row.id, { after, limit: 256, types: MARKS });
    for (const stored of page) {
      after = stored.sequence;
      const event = JSON.parse(stored.body) as SluiceEvent;
      if (event.type === "input.accepted") {
        rest = ended;
        unended.add(event.data.turn_id);
      }
      if (event.type === "turn.ended") {
        unended.delete(event.data.turn_id);
        if (unended.size === 0 && after <= through) ended = after;
      }
      if (after >= through && rest === ended) return rest;
    }
    if (page.length === 0) break;
  }
  return rest;
}
