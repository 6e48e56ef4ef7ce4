import { PermissionReply, QuestionReply, ToolReply } from "../../contract/index.ts";
import { universal } from "../../dialects/universal/index.ts";
import { defineOperation, done, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";

/** Recorded with every answer that came through this dialect. */
const by = universal.id;

export const actionOperations = {
  replyPermission: defineOperation({
    id: "replyPermission",
    method: "POST",
    path: "/v1/sessions/{id}/permissions/{pid}/reply",
    tag: "answers",
    summary: "Grants or denies a permission request of the agent",
    body: { kind: "json", schema: PermissionReply },
    answer: done("Answered"),
    errors: ["invalid_request", "session_not_found", "action_not_found", "already_resolved"],
  }),
  replyQuestion: defineOperation({
    id: "replyQuestion",
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reply",
    tag: "answers",
    summary: "Answers a question of the agent",
    body: { kind: "json", schema: QuestionReply },
    answer: done("Answered"),
    errors: ["invalid_request", "session_not_found", "action_not_found", "already_resolved"],
  }),
  rejectQuestion: defineOperation({
    id: "rejectQuestion",
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reject",
    tag: "answers",
    summary: "Refuses to answer a question of the agent",
    answer: done("Rejected"),
    errors: ["session_not_found", "action_not_found", "already_resolved"],
  }),
  replyTool: defineOperation({
    id: "replyTool",
    method: "POST",
    path: "/v1/sessions/{id}/tools/{rid}/reply",
    tag: "answers",
    summary: "Gives the result of a tool that the application ran (extension)",
    body: { kind: "json", schema: ToolReply },
    answer: done("Answered"),
    errors: ["invalid_request", "session_not_found", "action_not_found", "already_resolved", "too_large"],
  }),
} as const;

/** Answers to the requests of an agent: permissions, questions, and tools that the application runs. */
export function mountActions(mount: Mount, { engine }: Services): void {
  mount(actionOperations.replyPermission, async ({ c, body, param }) => {
    await engine.resolvePermission(param("id"), param("pid"), { ...body, by });
    return c.body(null, 204);
  });

  mount(actionOperations.replyQuestion, async ({ c, body, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { ...body, by });
    return c.body(null, 204);
  });

  mount(actionOperations.rejectQuestion, async ({ c, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { rejected: true, by });
    return c.body(null, 204);
  });

  mount(actionOperations.replyTool, async ({ c, body, param }) => {
    await engine.resolveTool(param("id"), param("rid"), { ...body, by });
    return c.body(null, 204);
  });
}
