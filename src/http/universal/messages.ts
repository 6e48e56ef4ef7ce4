import type { Context } from "hono";
import { SendMessage } from "../../contract/index.ts";
import { toContent, toView, universal, ViewQuery } from "../../dialects/universal/index.ts";
import type { SessionInput } from "../../sessions/port.ts";
import type { AppEnv } from "../context.ts";
import { defineOperation, done, events, IDEMPOTENCY, idempotencyKeyOf, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { readSession } from "../stream/cursor.ts";

export const TURN_HEADER = { "sluice-turn-id": "the turn of the message" };
const SEND_ERRORS = [
  "invalid_request",
  "session_not_found",
  "session_ended",
  "session_busy",
  "idempotency_conflict",
  "too_large",
] as const;

export const messageOperations = {
  sendMessage: defineOperation({
    id: "sendMessage",
    method: "POST",
    path: "/v1/sessions/{id}/messages",
    scope: "control",
    tag: "messages",
    summary: "Sends a message; it waits in order while a turn runs",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: SendMessage },
    answer: done("Durably accepted", TURN_HEADER),
    errors: SEND_ERRORS,
  }),
  streamMessage: defineOperation({
    id: "streamMessage",
    method: "POST",
    path: "/v1/sessions/{id}/messages/stream",
    scope: "control",
    tag: "messages",
    summary: "Sends a message and streams the events of its turn",
    query: ViewQuery,
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: SendMessage },
    answer: events("The events of the message's turn, to its end", TURN_HEADER),
    errors: SEND_ERRORS,
  }),
} as const;

export function mountMessages(mount: Mount, { streams }: Services): void {
  mount(messageOperations.sendMessage, async ({ engine, c, body, param }) => {
    const { turnId } = await engine.send(param("id"), toInput(c, body));
    return c.body(null, 204, toTurnHeader(turnId));
  });

  mount(messageOperations.streamMessage, async ({ engine, c, body, query, param }) => {
    const session = param("id");
    const { turnId, after } = await engine.send(session, toInput(c, body));
    const { row, until } = await readSession(engine, session);
    return streams.respond(c, {
      session,
      ordinal: row.ordinal,
      dialect: universal,
      view: { ...toView(query), turn: turnId },
      after: Math.max(after, row.floor),
      ...(until !== undefined && { until }),
      headers: toTurnHeader(turnId),
    });
  });
}

export function toTurnHeader(turnId: string): Record<string, string> {
  return { "sluice-turn-id": turnId };
}

function toInput(c: Context<AppEnv>, message: SendMessage): SessionInput {
  const key = idempotencyKeyOf(c);
  const { delivery, options, instructions } = message;
  return {
    content: toContent(message),
    via: universal.id,
    ...(key !== undefined && { key }),
    ...(delivery && { delivery }),
    ...(options && { options }),
    ...(instructions !== undefined && { instructions }),
  };
}
