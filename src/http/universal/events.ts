import { z } from "zod";
import { FramePage, SluiceError, SluiceEvent } from "../../contract/index.ts";
import {
  PageQuery,
  parseCursor,
  StreamQuery,
  toUniversalText,
  toView,
  toVisibleTypes,
  universal,
} from "../../dialects/universal/index.ts";
import type { EventLog, ReadRange, SessionRow, StoredEvent } from "../../log/port.ts";
import { defineOperations, events, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { readBefore, readSession, startAt, toOldestHeader } from "../stream/cursor.ts";
import { parseFrameCursor, readFrames, type TextPage, toFrameSource } from "./inspection/frames.ts";
import * as responses from "../../contract/responses.ts";

export const eventOperations = defineOperations({
  listEvents: {
    method: "GET",
    path: "/v1/sessions/{id}/events",
    scope: "read",
    tag: "events",
    summary: "A page of a session's events, or of their frames in another dialect",
    query: PageQuery,
    answer: json("The page", z.union([responses.EventPage, FramePage])),
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "cursor_gone"],
  },
  streamEvents: {
    method: "GET",
    path: "/v1/sessions/{id}/events/sse",
    scope: "read",
    tag: "events",
    summary: "A session's events from a cursor on, then live, until the session ends",
    query: StreamQuery,
    headers: { "Last-Event-ID": "the id of the last event that was seen; wins over offset and after" },
    answer: events(
      "id: the sequence, data: the event; a comment every 15 s. With `as`, data is the dialect's, and the id of a frame before an event's last one is sequence:k",
      undefined,
      SluiceEvent,
    ),
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "cursor_gone"],
  },
});

export function mountEvents(mount: Mount, { streams }: Services): void {
  mount(eventOperations.listEvents, async ({ engine, c, query, param }) => {
    const { row } = await readSession(engine, param("id"));
    const cursor = parseCursor(query);
    const { before, as } = query;
    if (before !== undefined && cursor !== undefined)
      throw new SluiceError("invalid_cursor", "before reads back and a cursor reads on; give one of them.");
    const after = startAt(row, cursor);
    const page = as
      ? await readFrames(engine.log, row, { ...query, as, after })
      : await readTexts(engine.log, row, { ...query, after });
    const { hasMore, texts, first, last } = page;
    const [name, at] = before === undefined ? ["next", last] : ["previous", first];
    const more = hasMore ? `,"${name}":"${at}"` : "";
    const body = `{"events":[${texts.join(",")}],"hasMore":${hasMore}${more}}`;
    return c.body(body, 200, { "content-type": "application/json", ...toOldestHeader(row) });
  });

  mount(eventOperations.streamEvents, async ({ engine, c, query, param }) => {
    const session = param("id");
    const lastEventId = c.req.header("last-event-id");
    const { as } = query;
    const start = as ? parseFrameCursor(query, lastEventId) : { after: parseCursor(query, lastEventId) };
    const { row, until } = await readSession(engine, session);
    const common = {
      session,
      ordinal: row.ordinal,
      after: startAt(row, start.after),
      ...(until !== undefined && { until }),
      headers: toOldestHeader(row),
    };
    if (!as) return streams.respond(c, { ...common, dialect: universal, view: toView(query) });
    return streams.respond(c, { ...common, ...(await toFrameSource(row, { ...query, ...start, as })) });
  });
}

/** A page of events as texts, with the sequences of its ends. */
async function readTexts(
  log: EventLog,
  row: SessionRow,
  query: PageQuery & { after: number },
): Promise<TextPage> {
  const { after, before, limit } = query;
  const view = toView(query);
  const types = toVisibleTypes(view, query.types);
  const range = { limit, raw: view.includeRaw === true, ...(types && { types }) };
  const page =
    before === undefined
      ? await readPage(log, row.id, { ...range, after })
      : await readBefore(log, row, { ...range, before });
  return {
    texts: page.events.map((event) => toUniversalText(event, view)),
    first: page.events[0]?.sequence,
    last: page.events.at(-1)?.sequence,
    hasMore: page.hasMore,
  };
}

async function readPage(
  log: EventLog,
  session: string,
  range: ReadRange,
): Promise<{ events: readonly StoredEvent[]; hasMore: boolean }> {
  if (range.types?.size === 0) return { events: [], hasMore: false };
  const events = await log.read(session, { ...range, limit: range.limit + 1 });
  if (events.length > range.limit) return { events: events.slice(0, range.limit), hasMore: true };
  const last = events.at(-1);
  if (!last) return { events, hasMore: false };
  // The log returns fewer events than the limit if they are big, so more may follow a short page.
  const { raw: _, ...rest } = range;
  const following = await log.read(session, { ...rest, after: last.sequence, limit: 1 });
  return { events, hasMore: following.length > 0 };
}
