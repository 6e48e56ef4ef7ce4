import { createHash } from "node:crypto";
import type { SluiceEvent } from "../contract/index.ts";
import type { StoredEvent } from "./port.ts";

/** The most sessions of which it is remembered. */
const SESSIONS_REMEMBERED = 4096;

/** What of the store was found readable in this process: looking costs as much as the reading itself, so it is done once. */
export class Checked {
  readonly #ranges = new Map<number, { first: number; last: number }>();

  has(ordinal: number, sequence: number): boolean {
    const range = this.#ranges.get(ordinal);
    return range !== undefined && sequence >= range.first && sequence <= range.last;
  }

  /** To be called in the order of reading. */
  add(ordinal: number, sequence: number): void {
    const range = this.#ranges.get(ordinal);
    if (range?.last === sequence - 1) {
      range.last = sequence;
      return;
    }
    if (this.#ranges.size >= SESSIONS_REMEMBERED) this.#ranges.clear();
    this.#ranges.set(ordinal, { first: sequence, last: sequence });
  }
}

/** Whether its stored text is still the event that was written. */
export function isReadable({ sequence, type, body }: StoredEvent): boolean {
  try {
    const event = JSON.parse(body) as Partial<SluiceEvent> | null;
    return event?.sequence === sequence && event.type === type && typeof event.data === "object";
  } catch {
    return false;
  }
}

/** What is told in the place of an event that cannot be read any more: the log has no gap, and it costs no other event. */
export function toDamaged(
  { sequence, body }: StoredEvent,
  { session, before }: { session: string; before: StoredEvent | undefined },
): StoredEvent {
  const type = "agent.unparsed";
  const told: SluiceEvent = {
    sequence,
    type,
    event_id: /"event_id":"(evt_[0-9a-z]+)"/.exec(body)?.[1] ?? `evt_${sequence}`,
    time: timeOf(body) ?? timeOf(before?.body ?? "") ?? new Date(0).toISOString(),
    session_id: session,
    source: "daemon",
    synthetic: true,
    data: {
      error: `Event ${sequence} is damaged in the store. Restore it from a backup; all other events can be read.`,
      location: `log:${sequence}`,
      raw_hash: createHash("sha256").update(body).digest("hex"),
    },
  };
  return { sequence, type, body: JSON.stringify(told) };
}

function timeOf(body: string): string | undefined {
  const [, time] = /"time":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"/.exec(body) ?? [];
  return time !== undefined && Number.isFinite(Date.parse(time)) ? time : undefined;
}
