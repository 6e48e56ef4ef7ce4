import { universal } from "../../dialects/universal/index.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

/** Whose an answer is, where this dialect gave it. */
const by = universal.id;

/** The answers to what an agent asked: permissions, questions, and tools that the application runs. */
export function mountActions(mount: Mount, { engine }: Services): void {
  mount(operations.replyPermission, async ({ c, body, param }) => {
    await engine.resolvePermission(param("id"), param("pid"), { ...body, by });
    return c.body(null, 204);
  });

  mount(operations.replyQuestion, async ({ c, body, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { ...body, by });
    return c.body(null, 204);
  });

  mount(operations.rejectQuestion, async ({ c, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { rejected: true, by });
    return c.body(null, 204);
  });

  mount(operations.replyTool, async ({ c, body, param }) => {
    await engine.resolveTool(param("id"), param("rid"), { ...body, by });
    return c.body(null, 204);
  });
}
