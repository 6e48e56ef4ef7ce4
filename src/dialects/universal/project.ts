import { EVENT_TYPES, type EventType, isPlain, type Item, storedImagePath } from "../../contract/index.ts";
import type { Dialect, Frame } from "../port.ts";
import type { StoredEventText } from "../stored.ts";

export interface UniversalView {
  /** Also the types that the universal transcript schema does not define. */
  readonly extensions?: boolean;
  /** With the native line in `raw`. */
  readonly includeRaw?: boolean;
  /** Only the events of this turn; the stream ends behind its `turn.ended`. */
  readonly turn?: string;
}

/** Universal is the log itself: one event is one frame, and the stored text is the frame. */
export const universal: Dialect<UniversalView, UniversalView> = {
  id: "universal",
  memory: "none",
  wantsRaw: (view) => view.includeRaw === true,
  initial: (view) => view,
  project(view, event) {
    const ours = view.turn === undefined || isOfTurn(event, view.turn);
    const seen = ours && (view.extensions === true || isPlain(event.type));
    return {
      state: view,
      frames: seen ? [{ data: toUniversalText(event, view) }] : NO_FRAMES,
      last: ENDS.has(event.type) || (view.turn !== undefined && ours && event.type === "turn.ended"),
    };
  },
};

/** The event as a universal client reads it; `raw` is spliced in as it stands, never parsed. */
export function toUniversalText(event: StoredEventText, view: UniversalView): string {
  const body = view.extensions === true ? event.body : toPlainText(event);
  if (!view.includeRaw || event.raw === undefined) return body;
  return `${body.slice(0, -1)},"raw":${toOneLine(event.raw)}}`;
}

/** The page knows images by their path: one that is bytes in the log is a file of the session for its clients. */
function toPlainText({ type, body }: StoredEventText): string {
  const mayShow = type === "item.completed" || type === "item.started";
  if (!mayShow || !body.includes('"path":"data:')) return body;
  const event = JSON.parse(body) as { data: { item: Item } };
  const { item } = event.data;
  const content = item.content.map((part, index) => {
    const path = storedImagePath(item.item_id, index, part);
    return path === undefined ? part : { ...part, path };
  });
  return JSON.stringify({ ...event, data: { item: { ...item, content } } });
}

/** The types that a page has to be read for; undefined where all of them are. */
export function toVisibleTypes(
  view: UniversalView,
  types?: readonly EventType[],
): ReadonlySet<EventType> | undefined {
  if (types === undefined) return view.extensions ? undefined : PLAIN_TYPES;
  return new Set(view.extensions ? types : types.filter(isPlain));
}

const NO_FRAMES: readonly Frame[] = [];
const ENDS: ReadonlySet<EventType> = new Set(["session.ended", "session.deleted"]);
const PLAIN_TYPES: ReadonlySet<EventType> = new Set(EVENT_TYPES.filter(isPlain));

/** The envelope's `turn_id` counts, not one that stands deeper in the data. */
function isOfTurn(event: StoredEventText, turn: string): boolean {
  if (!event.body.includes(turn)) return false;
  return (JSON.parse(event.body) as { turn_id?: string }).turn_id === turn;
}

/** Raw line breaks in JSON text are only ever space between tokens. */
function toOneLine(json: string): string {
  return json.includes("\n") || json.includes("\r") ? json.replaceAll(/[\r\n]+/g, " ") : json;
}
