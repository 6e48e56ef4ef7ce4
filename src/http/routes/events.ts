import type { EventLog, ReadRange, StoredEvent } from "../../log/port.ts";
import {
  parseCursor,
  toUniversalText,
  toView,
  toVisibleTypes,
  universal,
} from "../../dialects/universal/index.ts";
import { readSession, startAt, toOldestHeader } from "../cursor.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

export function mountEvents(mount: Mount, { engine, streams }: Services): void {
  mount(operations.listEvents, async ({ c, query, param }) => {
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
    const body = `{"events":[${texts.join(",")}],"hasMore":${page.hasMore}}`;
    return c.body(body, 200, { "content-type": "application/json", ...toOldestHeader(row) });
  });

  mount(operations.streamEvents, async ({ c, query, param }) => {
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
  // The log gives fewer where events are big, so a short page says nothing about what is behind it.
  const { raw: _, ...rest } = range;
  const behind = await log.read(session, { ...rest, after: last.sequence, limit: 1 });
  return { events, hasMore: behind.length > 0 };
}
