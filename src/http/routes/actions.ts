import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";

/** The answers to what an agent asked: permissions, questions, and tools that the application runs. */
export function mountActions(mount: Mount, { engine }: Services): void {
  mount(operations.replyPermission, async ({ c, body, param }) => {
    await engine.resolvePermission(param("id"), param("pid"), body);
    return c.body(null, 204);
  });

  mount(operations.replyQuestion, async ({ c, body, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), body);
    return c.body(null, 204);
  });

  mount(operations.rejectQuestion, async ({ c, param }) => {
    await engine.resolveQuestion(param("id"), param("qid"), { rejected: true });
    return c.body(null, 204);
  });

  mount(operations.replyTool, async ({ c, body, param }) => {
    await engine.resolveTool(param("id"), param("rid"), body);
    return c.body(null, 204);
  });
}
