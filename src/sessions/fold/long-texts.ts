import type { EventDraft } from "../../contract/index.ts";
import { addCut, COLLECTED_LENGTH, headOf, isLongJson } from "../../text/long-text.ts";
import type { OpenItem } from "./turn-fold.ts";

/**
 * The longest JSON of one event or state. A line of 128 MB fits, also where it is escaped twice. Twice this length is
 * more than a string can have.
 */
const MAX_JSON_LENGTH = 256 * 1024 * 1024;
/** A delta up to this length fits, however much of it JSON escapes. */
const SAFE_LENGTH = 32 * 1024 * 1024;
/** The limits of an event that is cut: the length of each text, and the number of values. */
const KEPT_LENGTH = 64 * 1024;
const KEPT_VALUES = 1_000;

/** The part of the session's fold that collects texts. */
interface Collecting {
  readonly open: Readonly<Record<string, OpenItem>>;
  readonly turn: { readonly open: Readonly<Record<string, OpenItem>> } | null;
  collected?: number;
}

/** Adds a delta to the text of an open item. The open items of a session have one limit for their texts together. */
export function collectText(fold: Collecting, open: OpenItem, delta: string): void {
  if (open.cut) return;
  fold.collected ??= countCollected(fold);
  const room = COLLECTED_LENGTH - fold.collected;
  if (delta.length <= room) {
    open.text += delta;
    fold.collected += delta.length;
    return;
  }
  open.text = addCut(open.text, delta, room);
  open.cut = true;
  fold.collected = COLLECTED_LENGTH;
}

/** Gives the room of a text back, once its item is complete. */
export function releaseText(fold: Collecting, open: OpenItem | undefined): void {
  if (open === undefined || fold.collected === undefined) return;
  fold.collected = open.cut ? countCollected(fold, open) : Math.max(0, fold.collected - open.text.length);
}

/** The length of the texts of all open items but one. */
function countCollected(fold: Collecting, but?: OpenItem): number {
  const length = openItemsOf(fold).reduce((sum, open) => sum + (open === but ? 0 : open.text.length), 0);
  return Math.min(length, COLLECTED_LENGTH);
}

function openItemsOf({ open, turn }: Collecting): OpenItem[] {
  return [...Object.values(open), ...Object.values(turn?.open ?? {})];
}

/** Cuts the texts of a fold that an older version has stored: it had no limit. */
export function cutCollected(fold: Collecting): void {
  const opened = openItemsOf(fold).filter(({ cut }) => !cut);
  if (opened.reduce((sum, { text }) => sum + text.length, 0) <= COLLECTED_LENGTH) return;
  fold.collected = 0;
  for (const open of opened) {
    const { text } = open;
    open.text = "";
    collectText(fold, open, text);
  }
}

/** Whether the value cannot be stored as JSON, because it would be too long. */
export function isTooLong(value: unknown): boolean {
  return isLongJson(value, MAX_JSON_LENGTH);
}

/** Whether the delta has to be looked at before it is stored. */
export function mayBeTooLong(delta: string): boolean {
  return delta.length > SAFE_LENGTH;
}

/** Cuts the event if its JSON would be too long to be stored; returns the error to report. */
export function cutEvent(event: EventDraft): EventDraft | undefined {
  if (!isTooLong(event.data)) return undefined;
  const left = { values: KEPT_VALUES };
  (event as { data: unknown }).data = shorten(event.data, left);
  const message = `an event was too long to be stored (${event.type}); its long texts were cut`;
  return { type: "error", source: "daemon", data: { code: "too_large", message } };
}

/** The value with short texts. Texts, numbers and flags stay in their places; lists and objects may become empty. */
function shorten(value: unknown, left: { values: number }): unknown {
  if (typeof value === "string") return cutText(value);
  if (typeof value !== "object" || value === null) return value;
  const most = left.values;
  if (Array.isArray(value)) {
    left.values -= Math.min(most, value.length);
    return value.slice(0, most).map((one) => shorten(one, left));
  }
  const entries = Object.entries(value).slice(0, Math.max(most, FIELDS));
  left.values = Math.max(0, most - entries.length);
  return Object.fromEntries(entries.map(([key, one]) => [headOf(key, KEPT_LENGTH), shorten(one, left)]));
}

/** The fields of our own objects stay: they have fewer than this. */
const FIELDS = 32;

function cutText(text: string): string {
  if (text.length <= KEPT_LENGTH) return text;
  const kept = headOf(text, KEPT_LENGTH);
  return `${kept}\n[the text was cut after ${kept.length} characters]`;
}

/** A native line as a JSON string. A line whose string would be too long is cut. */
export function toRawString(text: string): string {
  if (!isTooLong(text)) return JSON.stringify(text);
  const kept = headOf(text, KEPT_LENGTH);
  return JSON.stringify(`${kept}\n[the line was cut after ${kept.length} of ${text.length} characters]`);
}
