import { createHash } from "node:crypto";
import { EVENT_TYPES, ID_PREFIX } from "../contract/index.ts";
import type { EventDraft, EventType } from "../contract/index.ts";

/** Writes a session's drafts as their stored texts, once and for all readers. */
export class Sealer {
  readonly #idPrefix: string;
  readonly #session: string;

  constructor(session: { id: string; createdAt: number }) {
    this.#idPrefix = `${ID_PREFIX.event}_${toIdPrefix(session)}`;
    this.#session = `","session_id":${JSON.stringify(session.id)}`;
  }

  /** One text per draft; the first gets the sequence `first`. */
  seal(drafts: readonly EventDraft[], at: { first: number; time: number }): string[] {
    const texts: string[] = [];
    const time = `","time":"${new Date(at.time).toISOString()}${this.#session}`;
    let sequence = at.first;
    let like: EventDraft | undefined;
    let middle = "";
    const data = new DataTexts();
    for (const draft of drafts) {
      if (like === undefined || !hasSameEnvelope(draft, like)) {
        like = draft;
        middle = `${time}${toEnvelopeRest(draft)},"data":`;
      }
      texts.push(
        `{"sequence":${sequence},"type":"${draft.type}","event_id":"${this.#idPrefix}${sequence.toString(36)}${middle}${data.of(draft)}}`,
      );
      sequence++;
    }
    return texts;
  }
}

/** The type of a stored text, read at its fixed place. */
export function readType(text: string, sequence: number): EventType {
  const start = TYPE_AT + String(sequence).length;
  const type = text.slice(start, text.indexOf('"', start));
  return KNOWN_TYPES.get(type) ?? (type as EventType);
}

const TYPE_AT = '{"sequence":,"type":"'.length;

// Readers share one string per type instead of a slice per event.
const KNOWN_TYPES = new Map<string, EventType>(EVENT_TYPES.map((type) => [type, type]));

/** A fixed length keeps prefix and sequence apart; the creation time tells a deleted session from its namesake. */
function toIdPrefix(session: { id: string; createdAt: number }): string {
  const hash = createHash("sha256").update(`${session.id}\n${session.createdAt}`).digest();
  return hash.readBigUInt64BE().toString(36).padStart(13, "0");
}

function hasSameEnvelope(a: EventDraft, b: EventDraft): boolean {
  return (
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

// Nearly every event is a delta of the item that the one before it was of: then only its text is new.
class DataTexts {
  #item: string | undefined;
  #native: string | undefined;
  #head = "";

  of(draft: EventDraft): string {
    if (draft.type !== "item.delta") return JSON.stringify(draft.data);
    const { item_id: item, native_item_id: native, delta } = draft.data;
    if (item !== this.#item || native !== this.#native) {
      this.#item = item;
      this.#native = native;
      this.#head = `${JSON.stringify(native === undefined ? { item_id: item } : { item_id: item, native_item_id: native }).slice(0, -1)},"delta":`;
    }
    return `${this.#head}${JSON.stringify(delta)}}`;
  }
}
