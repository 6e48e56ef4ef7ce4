import {
  PageQuery,
  parseCursor,
  StreamQuery,
  toUniversalText,
  toView,
  toVisibleTypes,
  universal,
} from "../../dialects/universal/index.ts";
import type { EventLog, ReadRange, StoredEvent } from "../../log/port.ts";
import { defineOperations, events, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { readSession, startAt, toOldestHeader } from "../stream/cursor.ts";
import * as responses from "./responses.ts";

export const eventOperations = defineOperations({
  listEvents: {
    method: "GET",
    path: "/v1/sessions/{id}/events",
    scope: "read",
    tag: "events",
    summary: "A page of a session's events",
    query: PageQuery,
    answer: json("The page", responses.EventPage),
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
    answer: events("id: the sequence, data: the event; a comment every 15 s"),
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "cursor_gone"],
  },
});

export function mountEvents(mount: Mount, { streams }: Services): void {
  mount(eventOperations.listEvents, async ({ engine, c, query, param }) => {
    const session = param("id");
    const cursor = parseCursor(query);
    const { row } = await readSession(engine, session);
    const after = startAt(row, cursor);
    const view = toView(query);
    const types = toVisibleTypes(view, query.types);
    const page = await readPage(engine.log, session, {
      after,
      limit: query.limit,
      raw: view.includeRaw === true,
      ...(types && { types }),
    });
    const texts = page.events.map((event) => toUniversalText(event, view));
    const next = page.hasMore ? `,"next":"${page.events.at(-1)?.sequence}"` : "";
    const body = `{"events":[${texts.join(",")}],"hasMore":${page.hasMore}${next}}`;
    return c.body(body, 200, { "content-type": "application/json", ...toOldestHeader(row) });
  });

  mount(eventOperations.streamEvents, async ({ engine, c, query, param }) => {
    const session = param("id");
    const cursor = parseCursor(query, c.req.header("last-event-id"));
    const { row, until } = await readSession(engine, session);
    return streams.respond(c, {
      session,
      ordinal: row.ordinal,
      dialect: universal,
      view: toView(query),
      after: startAt(row, cursor),
      ...(until !== undefined && { until }),
      headers: toOldestHeader(row),
    });
  });
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
