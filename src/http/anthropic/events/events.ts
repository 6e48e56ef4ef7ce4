import type { Context } from "hono";
import { SluiceError } from "../../../contract/index.ts";
import { fromEventId, toThreadId } from "../../../dialects/anthropic/ids.ts";
import { anthropic } from "../../../dialects/anthropic/project.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import { toStatus, toThread } from "../../../dialects/anthropic/resources/session.ts";
import { type AnthropicView } from "../../../dialects/anthropic/state.ts";
import type { EventLog, SessionRow } from "../../../log/port.ts";
import { demandScope } from "../../access/demand.ts";
import type { AppEnv } from "../../context.ts";
import { digestOf } from "../../digest.ts";
import { readSession, readStateAt } from "../../stream/cursor.ts";
import { isResend } from "../idempotency.ts";
import { eventOperations, type StreamQuery, threadOperations } from "../operations/sessions.ts";
import * as params from "../query.ts";
import type { Route, TenantScope } from "../route.ts";
import { readOpenRecord, readRecord, type SessionRecord } from "../sessions/record.ts";
import { queueWork } from "../work/queue.ts";
import { readEventPage } from "./event-page.ts";
import { send } from "./send.ts";

/** The events that answer a request of the agent. */
const ANSWERS: ReadonlySet<string> = new Set([
  "user.tool_confirmation",
  "user.custom_tool_result",
  "user.tool_result",
]);

export function mountEvents(route: Route): void {
  route(eventOperations.anthropicSendEvents, async ({ c, scope, tenant, body, param }) => {
    // Messages and interrupts demand more than the scope of the route.
    if (body.events.some(({ type }) => !ANSWERS.has(type))) demandScope(c, "control");
    const record = await readOpenRecord(scope, param("id"));
    const request = { digest: digestOf(tenant, body), resent: isResend(c) };
    const data = await send(scope, { record, events: body.events, request });
    const { environment_id: environment, config } = record.body;
    if (record.document && config.type === "self_hosted")
      await queueWork(scope, { session: record.session, environment });
    return { data };
  });

  route(eventOperations.anthropicListEvents, async ({ scope, query, param }) => {
    const { session } = await readRecord(scope, param("id"));
    const page = await readEventPage(scope.engine, session, {
      list: `events ${session}`,
      order: query.order ?? "asc",
      limit: query.limit,
      page: query.page,
      types: query.types && new Set(query.types),
      created: params.toTimeRange(query),
    });
    return toPageResponse(page);
  });

  route(eventOperations.anthropicStreamEvents, async ({ c, scope, query, param }) =>
    stream(scope, { c, record: await readRecord(scope, param("id")), query }),
  );
}

/** Projected events are JSON already. */
function toPageResponse(page: { data: readonly string[]; next_page: string | null }): Response {
  const { data, next_page } = page;
  const body = `{"data":[${data.join(",")}],"next_page":${JSON.stringify(next_page)}}`;
  return new Response(body, { headers: { "content-type": "application/json" } });
}

/** Streams new events; the list has the earlier ones. A reader that was cut may name the last event that it saw. */
async function stream(
  { engine, streams }: TenantScope,
  { c, record, query }: { c: Context<AppEnv>; record: SessionRecord; query: StreamQuery },
): Promise<Response> {
  const { session } = record;
  const { row, until } = await readSession(engine, session);
  const seen = c.req.header("last-event-id");
  const resume: Resume = seen ? await findResume(engine.log, row, seen) : { after: row.head };
  // SDKs before 1.0 ignore server-sent events with another name than `message`.
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

/** A session has one thread, which has all of its events. */
export function mountThreads(route: Route): void {
  route(threadOperations.anthropicListThreads, async ({ scope, query, param }) => {
    const { body, info } = await readRecord(scope, param("id"));
    const isShown = query.statuses === undefined || query.statuses.includes(toStatus(info));
    return { data: isShown ? [toThread(body, info)] : [], next_page: null };
  });

  route(threadOperations.anthropicGetThread, async ({ scope, param }) => {
    const { body, info } = await readThread(scope, param);
    return toThread(body, info);
  });

  route(threadOperations.anthropicArchiveThread, async ({ scope, param }) => {
    await readThread(scope, param);
    throw refuse("The primary thread cannot be archived; archive its session.");
  });

  route(threadOperations.anthropicListThreadEvents, async ({ scope, query, param }) => {
    const { session } = await readThread(scope, param);
    const request = { list: `thread ${session}`, order: "asc", ...query } as const;
    return toPageResponse(await readEventPage(scope.engine, session, request));
  });

  route(threadOperations.anthropicStreamThreadEvents, async ({ c, scope, query, param }) =>
    stream(scope, { c, record: await readThread(scope, param), query }),
  );
}

async function readThread(scope: TenantScope, param: (name: string) => string): Promise<SessionRecord> {
  const record = await readRecord(scope, param("id"));
  if (param("thread") === toThreadId(record.session)) return record;
  throw new SluiceError("not_found", `There is no thread ${param("thread")} in this session.`);
}

/**
 * The position after an event that a reader saw. The search begins at the sequence in the event's id: the dialect
 * projects the event at that sequence or later.
 */
async function findResume(log: EventLog, row: SessionRow, id: string): Promise<Resume> {
  const source = fromEventId(row.id, id.replace(/-queued$/, ""));
  if (!source || source.sequence <= row.floor || source.sequence > row.head) throw unknownEvent(id);
  let state = await readStateAt(log, { session: row.id, dialect: anthropic, view: {} }, source.sequence - 1);
  for (let after = source.sequence - 1; after < row.head;) {
    const events = await log.read(row.id, { after, limit: 512 });
    for (const event of events) {
      const { frames, state: next } = anthropic.project(state, event);
      state = next;
      after = event.sequence;
      const index = frames.findIndex((frame) => frame.id === id);
      if (index === -1) continue;
      if (index === frames.length - 1) return { after };
      return { after: after - 1, seen: { sequence: after, frames: index + 1 } };
    }
    if (events.length === 0) break;
  }
  throw unknownEvent(id);
}

interface Resume {
  readonly after: number;
  readonly seen?: NonNullable<AnthropicView["seen"]>;
}

function unknownEvent(id: string): SluiceError {
  const detail = `Last-Event-ID: ${JSON.stringify(id.slice(0, 80))} is no event of this session.`;
  return new SluiceError("invalid_cursor", detail);
}
