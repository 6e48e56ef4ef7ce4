import type { Context } from "hono";
import {
  PermissionReply,
  QuestionRejection,
  QuestionReply,
  SendMessage,
  SluiceEvent,
  ToolReply,
} from "../../contract/index.ts";
import { toContent, toView, universal, ViewQuery } from "../../dialects/universal/index.ts";
import type { SessionInput } from "../../sessions/port.ts";
import type { AppEnv } from "../context.ts";
import { defineOperations, done, events, IDEMPOTENCY, idempotencyKeyOf, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { readSession } from "../stream/cursor.ts";
import { byPath } from "../nodes/owner-rules.ts";

const TURN_HEADER = { "sluice-turn-id": "the turn of the message" };
const SEND_ERRORS = [
  "invalid_request",
  "session_not_found",
  "session_ended",
  "session_busy",
  "idempotency_conflict",
  "too_large",
] as const;

export const messageOperations = defineOperations({
  sendMessage: {
    method: "POST",
    path: "/v1/sessions/{id}/messages",
    scope: "control",
    owner: byPath,
    tag: "messages",
    summary: "Sends a message; it waits in order while a turn runs",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: SendMessage },
    answer: done("Durably accepted", TURN_HEADER),
    errors: SEND_ERRORS,
  },
  streamMessage: {
    method: "POST",
    path: "/v1/sessions/{id}/messages/stream",
    scope: "control",
    owner: byPath,
    tag: "messages",
    summary: "Sends a message and streams the events of its turn",
    query: ViewQuery,
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: SendMessage },
    answer: events("The events of the message's turn, to its end", TURN_HEADER, SluiceEvent),
    errors: SEND_ERRORS,
  },
});

/** Recorded with every answer that came through this dialect. */
const by = universal.id;
const ANSWER_ERRORS = [
  "session_not_found",
  "action_not_found",
  "already_resolved",
  "idempotency_conflict",
] as const;

export const actionOperations = defineOperations({
  replyPermission: {
    method: "POST",
    path: "/v1/sessions/{id}/permissions/{pid}/reply",
    scope: "answer",
    owner: byPath,
    tag: "answers",
    summary: "Grants or denies a permission request of the agent",
    body: { kind: "json", schema: PermissionReply },
    headers: IDEMPOTENCY,
    answer: done("Answered"),
    errors: ["invalid_request", ...ANSWER_ERRORS],
  },
  replyQuestion: {
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reply",
    scope: "answer",
    owner: byPath,
    tag: "answers",
    summary: "Answers a question of the agent",
    body: { kind: "json", schema: QuestionReply },
    headers: IDEMPOTENCY,
    answer: done("Answered"),
    errors: ["invalid_request", ...ANSWER_ERRORS],
  },
  rejectQuestion: {
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reject",
    scope: "answer",
    owner: byPath,
    tag: "answers",
    summary: "Refuses to answer a question of the agent, with or without a reason",
    body: { kind: "json", schema: QuestionRejection, optional: true },
    headers: IDEMPOTENCY,
    answer: done("Rejected"),
    errors: ["invalid_request", ...ANSWER_ERRORS],
  },
  replyTool: {
    method: "POST",
    path: "/v1/sessions/{id}/tools/{rid}/reply",
    scope: "answer",
    owner: byPath,
    tag: "answers",
    summary: "Gives the result of a tool that the application ran (extension)",
    body: { kind: "json", schema: ToolReply },
    headers: IDEMPOTENCY,
    answer: done("Answered"),
    errors: ["invalid_request", ...ANSWER_ERRORS, "too_large"],
  },
});

/** Messages to an agent, and answers to its requests: permissions, questions, and tools that the application runs. */
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

  mount(actionOperations.replyPermission, ({ engine, c, body, param }) =>
    engine.resolvePermission(param("id"), param("pid"), { ...body, by }, keyOf(c)),
  );

  mount(actionOperations.replyQuestion, ({ engine, c, body, param }) =>
    engine.resolveQuestion(param("id"), param("qid"), { ...body, by }, keyOf(c)),
  );

  mount(actionOperations.rejectQuestion, ({ engine, c, body, param }) =>
    engine.resolveQuestion(param("id"), param("qid"), { rejected: true, ...body, by }, keyOf(c)),
  );

  mount(actionOperations.replyTool, ({ engine, c, body, param }) =>
    engine.resolveTool(param("id"), param("rid"), { ...body, by }, keyOf(c)),
  );
}

function toTurnHeader(turnId: string): Record<string, string> {
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

function keyOf(c: Context<AppEnv>): { key: string | undefined } {
  return { key: idempotencyKeyOf(c) };
}
