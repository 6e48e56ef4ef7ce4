import { z } from "zod";
import { UsageBy, UsageReport } from "../../contract/index.ts";
import { readUsage } from "../../sessions/fold/usage-report.ts";
import { defineOperations, json, type Mount } from "../operation.ts";

const Day = z.iso.date().optional();

export const usageOperations = defineOperations({
  getUsage: {
    method: "GET",
    path: "/v1/usage",
    scope: "read",
    tag: "server",
    summary: "Tokens and costs of models, added up; those of deleted sessions are in it (extension)",
    query: z.object({
      by: UsageBy.default("session").describe("`turn` and `request` need `session`, and read its log"),
      session: z.string().optional(),
      model: z.string().optional(),
      from: Day.describe("the first day, in UTC, such as 2026-11-18"),
      to: Day.describe("the last day"),
    }),
    answer: json("The sums", UsageReport),
    errors: ["invalid_request", "session_not_found"],
  },
});

export function mountUsage(mount: Mount): void {
  mount(usageOperations.getUsage, async ({ engine, c, query }) =>
    c.json(await readUsage({ usage: (filter) => engine.usage(filter), log: engine.log }, query)),
  );
}
