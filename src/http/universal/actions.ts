import type { Context } from "hono";
import { PermissionReply, QuestionReply, ToolReply } from "../../contract/index.ts";
import { universal } from "../../dialects/universal/index.ts";
import type { AppEnv } from "../context.ts";
import { defineOperation, done, IDEMPOTENCY, idempotencyKeyOf, type Mount } from "../operation.ts";

/** Recorded with every answer that came through this dialect. */
const by = universal.id;

export const actionOperations = {
  replyPermission: defineOperation({
    id: "replyPermission",
    method: "POST",
    path: "/v1/sessions/{id}/permissions/{pid}/reply",
    scope: "answer",
    tag: "answers",
    summary: "Grants or denies a permission request of the agent",
    body: { kind: "json", schema: PermissionReply },
    headers: IDEMPOTENCY,
    answer: done("Answered"),
    errors: [
      "invalid_request",
      "session_not_found",
      "action_not_found",
      "already_resolved",
      "idempotency_conflict",
    ],
  }),
  replyQuestion: defineOperation({
    id: "replyQuestion",
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reply",
    scope: "answer",
    tag: "answers",
    summary: "Answers a question of the agent",
    body: { kind: "json", schema: QuestionReply },
    headers: IDEMPOTENCY,
    answer: done("Answered"),
    errors: [
      "invalid_request",
      "session_not_found",
      "action_not_found",
      "already_resolved",
      "idempotency_conflict",
    ],
  }),
  rejectQuestion: defineOperation({
    id: "rejectQuestion",
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reject",
    scope: "answer",
    tag: "answers",
    summary: "Refuses to answer a question of the agent",
    headers: IDEMPOTENCY,
    answer: done("Rejected"),
    errors: ["session_not_found", "action_not_found", "already_resolved", "idempotency_conflict"],
  }),
  replyTool: defineOperation({
    id: "replyTool",
    method: "POST",
    path: "/v1/sessions/{id}/tools/{rid}/reply",
    scope: "answer",
    tag: "answers",
    summary: "Gives the result of a tool that the application ran (extension)",
    body: { kind: "json", schema: ToolReply },
    headers: IDEMPOTENCY,
    answer: done("Answered"),
    errors: [
      "invalid_request",
      "session_not_found",
      "action_not_found",
      "already_resolved",
      "idempotency_conflict",
      "too_large",
    ],
  }),
} as const;

/** Answers to the requests of an agent: permissions, questions, and tools that the application runs. */
export function mountActions(mount: Mount): void {
  mount(actionOperations.replyPermission, async ({ engine, c, body, param }) => {
    await engine.resolvePermission(param("id"), param("pid"), { ...body, by }, keyOf(c));
    return c.body(null, 204);
  });

  mount(actionOperations.replyQuestion, async ({ engine, c, body, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { ...body, by }, keyOf(c));
    return c.body(null, 204);
  });

  mount(actionOperations.rejectQuestion, async ({ engine, c, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { rejected: true, by }, keyOf(c));
    return c.body(null, 204);
  });

  mount(actionOperations.replyTool, async ({ engine, c, body, param }) => {
    await engine.resolveTool(param("id"), param("rid"), { ...body, by }, keyOf(c));
    return c.body(null, 204);
  });
}

function keyOf(c: Context<AppEnv>): { key: string | undefined } {
  return { key: idempotencyKeyOf(c) };
}
