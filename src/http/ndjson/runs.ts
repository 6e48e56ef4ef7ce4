import { z } from "zod";
import { SessionId, SluiceError, type SluiceEvent } from "../../contract/index.ts";
import { Dispatch, ndjson, type NdjsonCursor, parseLastEventId } from "../../dialects/ndjson/index.ts";
import { endsTurn } from "../../dialects/shared/projection.ts";
import { NdjsonLine } from "../../dialects/ndjson/line.ts";
import { flag } from "../../dialects/universal/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { defineOperations, done, events, json, type Mount } from "../operation.ts";
import { assertCursor, readSession } from "../stream/cursor.ts";
import { SSE_HEADERS, type StreamFormat } from "../stream/sse.ts";
import { CHAT, CHAT_STREAM, type NdjsonServices, STREAM, toKeyedId } from "./dialect.ts";
import { dispatch, type Dispatched } from "./dispatch.ts";
import type { Leave } from "./readers.ts";
import * as responses from "./responses.ts";
import type { OwnerRule } from "../nodes/at-owner.ts";
import { endsByLeaving, toNames } from "../nodes/owner-rules.ts";

const idempotency = { "Idempotency-Key": "a resend with the same key and body starts no second turn" };
const refusals = [
  "invalid_request",
  "unsupported_agent",
  "unsupported_sandbox",
  "agent_not_installed",
  "session_ended",
  "idempotency_conflict",
  "too_large",
] as const;

/** The session of a message: the named conversation, or the one that its key has begun. */
const byConversation: OwnerRule = async ({ body, c, tenant }) => {
  const { conversation, session } = await body();
  const names = toNames(conversation ?? session);
  const key = c.req.header("idempotency-key");
  return names.length > 0 || key === undefined ? names : [toKeyedId(tenant, key)];
};

/** Any node serves a reader, unless the turn ends when the reader leaves. */
const byLeavingReader: OwnerRule = (request) =>
  endsByLeaving(request) ? toNames(request.query("conversation")) : [];

const ChatStreamQuery = z.object({
  conversation: SessionId,
  turn: z.string().min(1),
  cancelOnDisconnect: flag()
    .optional()
    .describe(
      "the reader counts as a client of the run: a run that was dispatched with cancelOnDisconnect ends with its last client",
    ),
  ticket: z.string().optional(),
});

export const runOperations = defineOperations({
  ndjsonStream: {
    method: "POST",
    path: STREAM,
    scope: "control",
    owner: byConversation,
    tag: "ndjson",
    summary: "Runs one turn and streams it, one JSON object per line",
    headers: idempotency,
    body: { kind: "json", schema: Dispatch },
    answer: {
      status: 200,
      description: "log, step, then result or error",
      mime: "application/x-ndjson",
      schema: NdjsonLine,
    },
    errors: refusals,
  },
  ndjsonChat: {
    method: "POST",
    path: CHAT,
    scope: "control",
    owner: byConversation,
    tag: "ndjson",
    summary: "Starts one turn and returns the address of its events for a browser",
    headers: idempotency,
    body: { kind: "json", schema: Dispatch },
    answer: json("The turn", responses.NdjsonTurn),
    errors: refusals,
  },
  ndjsonChatStream: {
    method: "GET",
    path: CHAT_STREAM,
    scope: "read",
    owner: byLeavingReader,
    tag: "ndjson",
    summary: "A turn as server-sent events: step, then result or error, then done",
    query: ChatStreamQuery,
    headers: { "Last-Event-ID": "the id of the last event that was seen" },
    answer: events("The turn", undefined, responses.NdjsonFrame),
    otherAnswers: [done("The reader has seen the end of the turn")],
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "not_found", "cursor_gone"],
  },
});

export function mountRuns(mount: Mount, services: NdjsonServices): void {
  const { streams, readers, conversations, settings, tickets } = services;

  mount(runOperations.ndjsonStream, async ({ engine, c, body }) => {
    const run = await dispatch({ ...services, engine }, c, body);
    const { conversation, turn, after, row, cancelOnDisconnect } = run;
    // A stream of lines cannot be resumed, so a client that leaves it leaves the run.
    const enter = (): Leave => readers.enter(conversation, turn, { graceMs: 0 });
    return streams.respond(c, {
      session: conversation,
      ordinal: row.ordinal,
      dialect: ndjson,
      view: { turn },
      after: Math.max(after, row.floor),
      format: LINES,
      headers: toHeaders(run),
      ...(cancelOnDisconnect && { onOpen: enter }),
    });
  });

  mount(runOperations.ndjsonChat, async ({ engine, c, body }) => {
    const run = await dispatch({ ...services, engine }, c, body);
    const { conversation, turn, cancelOnDisconnect, upload } = run;
    const ticket = tickets.issue({ conversation, turn }, c.get("access"));
    const query = new URLSearchParams({
      conversation,
      turn,
      ...(cancelOnDisconnect && { cancelOnDisconnect: "true" }),
      ...(ticket !== undefined && { ticket }),
    });
    const answer = { conversation, turn, stream: `${CHAT_STREAM}?${query}`, ...(upload && { upload }) };
    return c.json(answer, 200, toHeaders(run));
  });

  mount(runOperations.ndjsonChatStream, async ({ engine, c, query }) => {
    const { conversation, turn } = query;
    const { row, until } = await readSession(engine, conversation);
    const dispatched = (await conversations.findTurn(c.get("tenant"), turn))?.body;
    const start = dispatched?.after ?? (await findStart(engine.log, row, turn));
    const lastEventId = c.req.header("last-event-id");
    const seen: NdjsonCursor = lastEventId ? parseLastEventId(lastEventId) : { after: start };
    if (seen.after > start) assertCursor(row, seen.after);
    if (await hasSeenEnd(engine.log, row, { turn, after: seen.after })) return c.body(null, 204);
    const enter = (): Leave => readers.enter(conversation, turn, { graceMs: settings.reconnectMs });
    // Both the dispatch and this reader have to ask for it, so that an observer cannot cancel a run.
    const cancels = dispatched?.cancelOnDisconnect === true && query.cancelOnDisconnect === true;
    return streams.respond(c, {
      session: conversation,
      ordinal: row.ordinal,
      dialect: ndjson,
      view: { turn, form: "sse" as const, ...(seen.seen && { seen: seen.seen }) },
      after: Math.max(seen.after, start, row.floor),
      ...(until !== undefined && { until }),
      ...(cancels && { onOpen: enter }),
    });
  });
}

function toHeaders({ conversation, turn, upload }: Dispatched): Record<string, string> {
  return {
    "sluice-conversation": conversation,
    "sluice-turn-id": turn,
    ...(upload && { "sluice-upload-otp": upload.password }),
  };
}

/** The sequence before the first event of a turn that another dialect began. */
async function findStart(log: EventLog, row: SessionRow, turn: string): Promise<number> {
  const types = new Set(["input.accepted", "turn.started"] as const);
  for (let after = row.floor; ;) {
    const events = await log.read(row.id, { after, limit: 512, types });
    for (const { sequence, body } of events) {
      after = sequence;
      if ((JSON.parse(body) as SluiceEvent).turn_id === turn) return sequence - 1;
    }
    if (events.length === 0) break;
  }
  throw new SluiceError("not_found", `There is no turn ${turn} in the conversation ${row.id}.`);
}

/** Whether the event at the cursor is the turn's last one, so that nothing is left to resume. */
async function hasSeenEnd(
  log: EventLog,
  row: SessionRow,
  { turn, after }: { turn: string; after: number },
): Promise<boolean> {
  if (after <= row.floor) return false;
  const [event] = await log.read(row.id, { after: after - 1, limit: 1 });
  if (!event || !endsTurn(event.type)) return false;
  return (JSON.parse(event.body) as SluiceEvent).turn_id === turn;
}

/** One JSON object per line, without a prelude. */
const LINES: StreamFormat = {
  framing: { id: "ndjson", frame: ({ data }) => `${data}\n` },
  // Proxies and Node's fetch drop a silent response, which would cancel the run. JSON allows a space before a value.
  ping: " ",
  headers: { ...SSE_HEADERS, "content-type": "application/x-ndjson" },
};
