import { z } from "zod";
import { Outline } from "../../../contract/index.ts";
import { whole } from "../../../dialects/universal/index.ts";
import { defineOperations, json, type Mount } from "../../operation.ts";

export const outlineOperations = defineOperations({
  getOutline: {
    method: "GET",
    path: "/v1/sessions/{id}/outline",
    scope: "read",
    tag: "events",
    summary:
      "The turns of a session with their first and last events, counts and marks, the newest page first (extension)",
    query: z.object({
      cursor: z.string().optional().describe("`next` of the previous page"),
      limit: whole(1, 1000).default(100),
    }),
    answer: json("A page of turns, in order", Outline),
    errors: ["invalid_request", "invalid_cursor", "session_not_found"],
  },
});

export function mountOutline(mount: Mount): void {
  mount(outlineOperations.getOutline, async ({ engine, c, query, param }) =>
    c.json(await engine.outline(param("id"), query)),
  );
}

/** The query of a session: a moment of its log. */
export const MomentQuery = z.object({
  at: whole(0)
    .optional()
    .describe("the session after this event, with its plan and its queue; now if absent (extension)"),
});
