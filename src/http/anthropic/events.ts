import { z } from "zod";
import { anthropic } from "../../dialects/anthropic/dialect.ts";
import { DELTA_TYPES, EVENT_TYPES } from "../../dialects/anthropic/event-types.ts";
import { SendEvents } from "../../dialects/anthropic/sendable.ts";
import type { Context } from "hono";
import { readSession } from "../cursor.ts";
import type { AppEnv } from "../env.ts";
import { readEventPage } from "./event-page.ts";
import * as params from "./query.ts";
import { digestOf, isResend } from "./resend.ts";
import { findResume, type Resume } from "./resume.ts";
import type { Route } from "./route.ts";
import { send } from "./send.ts";
import type { AnthropicServices } from "./services.ts";
import { readOpenRecord, readRecord, type SessionRecord } from "./session-record.ts";
import { queueWork } from "./work-queue.ts";

const ListEvents = z.object({
  types: params.listOf(z.enum(EVENT_TYPES, { error: "there is no such event type" })),
  order: params.order,
  limit: params.limitOf(1000),
  page: params.page,
  ...params.createdAt,
});

export const StreamEvents = z.object({ event_deltas: params.listOf(z.enum(DELTA_TYPES)) });
export type StreamEvents = z.infer<typeof StreamEvents>;

export function mountEvents(route: Route, services: AnthropicServices): void {
  const { engine } = services;

  route("POST", "/sessions/:id/events", { body: SendEvents }, async ({ c, owner, body, param }) => {
    const record = await readOpenRecord(services, owner, param("id"));
    const request = { digest: digestOf(owner, body), resent: isResend(c) };
    const data = await send(services, owner, { record, events: body.events, request });
    const { environment_id: environment, config } = record.body;
    if (record.document && config.type === "self_hosted")
      await queueWork(services, owner, { session: record.session, environment });
    return { data };
  });

  route("GET", "/sessions/:id/events", { query: ListEvents }, async ({ owner, query, param }) => {
    const { session } = await readRecord(services, owner, param("id"));
    const page = await readEventPage(engine, session, {
      list: `events ${session}`,
      order: query.order ?? "asc",
      limit: query.limit,
      page: query.page,
      types: query.types && new Set(query.types),
      created: params.toTimeRange(query),
    });
    return toPageResponse(page);
  });

  route("GET", "/sessions/:id/events/stream", { query: StreamEvents }, async ({ c, owner, query, param }) =>
    stream(services, { c, record: await readRecord(services, owner, param("id")), query }),
  );
}

/** Told events are JSON already. */
export function toPageResponse({
  data,
  next_page,
}: {
  data: readonly string[];
  next_page: string | null;
}): Response {
  const body = `{"data":[${data.join(",")}],"next_page":${JSON.stringify(next_page)}}`;
  return new Response(body, { headers: { "content-type": "application/json" } });
}

/** Live: what was told before is in the list. A reader that was cut may say which event it saw last. */
export async function stream(
  { engine, streams }: AnthropicServices,
  { c, record, query }: { c: Context<AppEnv>; record: SessionRecord; query: StreamEvents },
): Promise<Response> {
  const { session } = record;
  const { row, until } = await readSession(engine, session);
  const seen = c.req.header("last-event-id");
  const resume: Resume = seen ? await findResume(engine.log, row, seen) : { after: row.head };
  // These read no event by its own name.
  const legacy = /\bAnthropic\/(JS|Python) 0\./.test(c.req.header("user-agent") ?? "");
  const deltas = query.event_deltas ?? [];
  return streams.respond(c, {
    session,
    ordinal: row.ordinal,
    dialect: anthropic,
    view: {
      ...(deltas.length > 0 && { deltas }),
      ...(legacy && { legacy }),
      ...(resume.seen && { seen: resume.seen }),
    },
    after: resume.after,
    headers: { "request-id": c.get("requestId") },
    ...(until !== undefined && { until }),
  });
}
