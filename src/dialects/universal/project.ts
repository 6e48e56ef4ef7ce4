import { EVENT_TYPES, type EventType, isPlain, type Item, storedImagePath } from "../../contract/index.ts";
import type { Dialect, StoredEventText } from "../port.ts";
import { endsSession, endsTurn, NO_FRAMES } from "../shared/projection.ts";

export interface UniversalView {
  /** Adds the types beyond the universal transcript schema. */
  readonly extensions?: boolean;
  /** Adds the native line as `raw`. */
  readonly includeRaw?: boolean;
  /** Only this turn; the stream ends with its `turn.ended`. */
  readonly turn?: string;
}

/** The log itself: each event is one frame, and its stored text is the frame's text. */
export const universal: Dialect<UniversalView, UniversalView> = {
  id: "universal",
  memory: "none",
  wantsRaw: (view) => view.includeRaw === true,
  initial: (view) => view,
  project(view, event) {
    const isOfView = view.turn === undefined || isOfTurn(event, view.turn);
    const isVisible = isOfView && (view.extensions === true || isPlain(event.type));
    return {
      state: view,
      frames: isVisible ? [{ data: toUniversalText(event, view) }] : NO_FRAMES,
      last: endsSession(event.type) || (view.turn !== undefined && isOfView && endsTurn(event.type)),
    };
  },
};

/** The text of an event for a client; `raw` is inserted without parsing. */
export function toUniversalText(event: StoredEventText, view: UniversalView): string {
  const body = view.extensions === true ? event.body : toPlainText(event);
  if (!view.includeRaw || event.raw === undefined) return body;
  return `${body.slice(0, -1)},"raw":${toOneLine(event.raw)}}`;
}

/** The transcript schema has images by path only: bytes in the log become the path of their file in the sandbox. */
function toPlainText({ type, body }: StoredEventText): string {
  const mayHaveImage = type === "item.completed" || type === "item.started";
  if (!mayHaveImage || !body.includes('"path":"data:')) return body;
  const event = JSON.parse(body) as { data: { item: Item } };
  const { item } = event.data;
  const content = item.content.map((part, index) => {
    const path = storedImagePath(item.item_id, index, part);
    return path === undefined ? part : { ...part, path };
  });
  return JSON.stringify({ ...event, data: { item: { ...item, content } } });
}

/** The event types of a page; undefined means all. */
export function toVisibleTypes(
  view: UniversalView,
  types?: readonly EventType[],
): ReadonlySet<EventType> | undefined {
  if (types === undefined) return view.extensions ? undefined : PLAIN_TYPES;
  return new Set(view.extensions ? types : types.filter(isPlain));
}

const PLAIN_TYPES: ReadonlySet<EventType> = new Set(EVENT_TYPES.filter(isPlain));

/** Whether an event belongs to a turn. An event without the turn's id in its text is not parsed. */
function isOfTurn(event: StoredEventText, turn: string): boolean {
  if (!event.body.includes(turn)) return false;
  return (JSON.parse(event.body) as { turn_id?: string }).turn_id === turn;
}

/** Replaces unescaped line breaks: in JSON they are white space between tokens. */
function toOneLine(json: string): string {
  return json.includes("\n") || json.includes("\r") ? json.replaceAll(/[\r\n]+/g, " ") : json;
}
