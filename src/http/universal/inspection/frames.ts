import { type FormatName, SluiceError } from "../../../contract/index.ts";
import type { Format, SeenFrames } from "../../../dialects/formats.ts";
import type { Dialect } from "../../../dialects/port.ts";
import { parseCursor, type StreamQuery, toView } from "../../../dialects/universal/index.ts";
import type { EventLog, SessionRow } from "../../../log/port.ts";
import { readStateAt } from "../../stream/cursor.ts";

/** The texts of a page, and the first and last sequence that it covers. */
export interface TextPage {
  readonly texts: readonly string[];
  readonly first: number | undefined;
  readonly last: number | undefined;
  readonly hasMore: boolean;
}

type FormatQuery = Omit<StreamQuery, "as"> & { readonly as: FormatName };

/** The frames of the next events, or of those before `before`. Events without a frame are left out. */
export async function readFrames(
  log: EventLog,
  row: SessionRow,
  query: FormatQuery & {
    readonly after: number;
    readonly before?: number | undefined;
    readonly limit: number;
  },
): Promise<TextPage> {
  const { limit, before } = query;
  const end = Math.min(before === undefined ? query.after + limit : before - 1, row.head);
  const start = before === undefined ? query.after : Math.max(row.floor, end - limit);
  const { dialect, view } = await openFormat(row, query);
  const of = { session: row.id, ordinal: row.ordinal };
  let state = await readStateAt(log, { ...of, dialect, view }, start);
  const raw = dialect.wantsRaw?.(view) ?? false;
  const texts: string[] = [];
  let after = start;
  while (after < end) {
    const events = await log.read(row.id, { after, limit: end - after, raw, ordinal: row.ordinal });
    if (events.length === 0) break;
    for (const event of events) {
      const projected = dialect.project(state, event);
      state = projected.state;
      after = event.sequence;
      if (projected.frames.length === 0) continue;
      const frames = projected.frames.map(({ data }) => data).join(",");
      texts.push(`{"sequence":${event.sequence},"frames":[${frames}]}`);
    }
    // A page of large events is short, as a page of the log is; one that reads back has to reach its end.
    if (before === undefined) break;
  }
  const hasMore = before === undefined ? after < row.head : start > row.floor;
  return { texts, first: start + 1, last: after, hasMore };
}

/** The dialect and view of a stream whose frames have the log's sequence as their id. */
export async function toFrameSource(
  row: SessionRow,
  query: FormatQuery & { readonly seen?: SeenFrames },
): Promise<{ dialect: Dialect<unknown, { view: unknown; seen?: SeenFrames }>; view: { view: unknown } }> {
  const { toNumbered } = await import("../../../dialects/formats.ts");
  const { dialect, view } = await openFormat(row, query);
  // Two formats may share a dialect, but then their views differ.
  return { dialect: toNumbered(dialect), view: { view, ...(query.seen && { seen: query.seen }) } };
}

/** The position of a reader of frames. `Last-Event-ID` may name a frame inside of an event. */
export function parseFrameCursor(
  query: StreamQuery,
  lastEventId: string | undefined,
): { after?: number | undefined; seen?: SeenFrames } {
  const [, digits, frames] = /^(\d{1,15}):(\d{1,6})$/.exec(lastEventId ?? "") ?? [];
  if (digits === undefined || frames === undefined) return { after: parseCursor(query, lastEventId) };
  const sequence = Number(digits);
  if (sequence > 0) return { after: sequence - 1, seen: { sequence, frames: Number(frames) } };
  throw new SluiceError("invalid_cursor", "Last-Event-ID: no frame belongs to the sequence 0.");
}

/** The code of the dialects is loaded with the first request for frames. */
async function openFormat(
  row: SessionRow,
  query: FormatQuery,
): Promise<{ dialect: Format["dialect"]; view: unknown }> {
  const { FORMATS } = await import("../../../dialects/formats.ts");
  const { dialect, toView: viewOf } = FORMATS[query.as];
  return { dialect, view: viewOf({ agent: row.spec.agent, universal: toView(query) }) };
}
