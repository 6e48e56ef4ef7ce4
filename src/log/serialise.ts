import { createHash } from "node:crypto";
import { EVENT_TYPES, ID_PREFIX } from "../contract/index.ts";
import type { EventDraft, EventType } from "../contract/index.ts";

/** Writes a session's drafts as their stored texts, once and for all readers. */
export class EventSerialiser {
  readonly #idPrefix: string;
  readonly #session: string;

  constructor(session: { id: string; createdAt: number }) {
    this.#idPrefix = `${ID_PREFIX.event}_${toIdPrefix(session)}`;
    this.#session = `","session_id":${JSON.stringify(session.id)}`;
  }

  /** One text per draft; the first gets the sequence `first`. */
  serialise(drafts: readonly EventDraft[], at: { first: number; time: number }): string[] {
    const texts: string[] = [];
    const time = `","time":"${new Date(at.time).toISOString()}${this.#session}`;
    let sequence = at.first;
    let run: DeltaRun | undefined;
    for (const draft of drafts) {
      const id = sequence.toString(36);
      if (draft.type !== "item.delta") {
        texts.push(
          `{"sequence":${sequence},"type":"${draft.type}","event_id":"${this.#idPrefix}${id}${time}${toEnvelopeRest(draft)},"data":${JSON.stringify(draft.data)}}`,
        );
      } else {
        if (run === undefined || !continues(run.like, draft)) run = this.#startRun(draft, time);
        texts.push(
          `{"sequence":${sequence}${run.before}${id}${run.after}${JSON.stringify(draft.data.delta)}}}`,
        );
      }
      sequence++;
    }
    return texts;
  }

  // Most events are deltas that differ from the previous one in numbers and text alone.
  #startRun(like: Delta, time: string): DeltaRun {
    const { item_id, native_item_id } = like.data;
    const item = JSON.stringify(native_item_id === undefined ? { item_id } : { item_id, native_item_id });
    // `join` makes one flat string. A concatenated one would be copied piece by piece for every event.
    const after = [time, toEnvelopeRest(like), ',"data":', item.slice(0, -1), ',"delta":'].join("");
    return { like, before: `,"type":"item.delta","event_id":"${this.#idPrefix}`, after };
  }
}

type Delta = EventDraft & { type: "item.delta" };

/** Consecutive deltas of one item: the text before and after each one's id. */
interface DeltaRun {
  readonly like: Delta;
  readonly before: string;
  readonly after: string;
}

/** The type of a stored text, read at its fixed position. */
export function readType(text: string, sequence: number): EventType {
  const start = TYPE_AT + String(sequence).length;
  const type = text.slice(start, text.indexOf('"', start));
  return KNOWN_TYPES.get(type) ?? (type as EventType);
}

/** Whether the type is known: a damaged text may hold anything there. */
export function isKnownType(type: string): boolean {
  return KNOWN_TYPES.has(type);
}

const TYPE_AT = '{"sequence":,"type":"'.length;

// Readers share one string per type instead of a slice per event.
const KNOWN_TYPES = new Map<string, EventType>(EVENT_TYPES.map((type) => [type, type]));

/**
 * The prefix of a session's event ids. Its fixed length separates it from the sequence. The creation time is part of it,
 * so that a new session of the same id has other event ids.
 */
function toIdPrefix(session: { id: string; createdAt: number }): string {
  const hash = createHash("sha256").update(`${session.id}\n${session.createdAt}`).digest();
  return hash.readBigUInt64BE().toString(36).padStart(13, "0");
}

function continues(a: Delta, b: Delta): boolean {
  return (
    a.data.item_id === b.data.item_id &&
    a.data.native_item_id === b.data.native_item_id &&
    a.source === b.source &&
    a.turn_id === b.turn_id &&
    a.parent_id === b.parent_id &&
    a.native_session_id === b.native_session_id
  );
}

function toEnvelopeRest(draft: EventDraft): string {
  let text = "";
  if (draft.native_session_id !== undefined) {
    text += `,"native_session_id":${JSON.stringify(draft.native_session_id)}`;
  }
  text += `,"source":"${draft.source}","synthetic":${draft.source === "daemon"}`;
  if (draft.turn_id !== undefined) text += `,"turn_id":${JSON.stringify(draft.turn_id)}`;
  if (draft.parent_id !== undefined) text += `,"parent_id":${JSON.stringify(draft.parent_id)}`;
  return text;
}
