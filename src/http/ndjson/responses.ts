import { z } from "zod";
import { ErrorLine, ResultLine, StepLine } from "../../dialects/ndjson/line.ts";

/** The schemas of this dialect's requests and answers, besides those of its lines. */

export const NdjsonTurn = z.strictObject({
  conversation: z.string(),
  turn: z.string(),
  stream: z.string().describe("the path of the turn's events, for an EventSource"),
  upload: z
    .strictObject({ password: z.string(), expiresAt: z.number().describe("milliseconds since 1970") })
    .optional()
    .describe("for the assets of the run; a resend gets none"),
});

/** The data of a server-sent event. */
export const NdjsonFrame = z.discriminatedUnion("type", [
  StepLine,
  ResultLine,
  ErrorLine,
  z.strictObject({ type: z.literal("done") }),
]);

export const AssetForm = z.object({ file: z.file().describe("up to 20 files, under any field name") });

const Asset = z.strictObject({
  id: z.string(),
  name: z.string(),
  mime: z.string(),
  size: z.int(),
  turn: z.string(),
});

export const AcceptedAssets = z.strictObject({
  conversation: z.string(),
  turn: z.string(),
  assets: z.array(Asset),
});

const next = z.int().optional().describe("the cursor of the next page; absent on the last one");

export const AssetPage = z.strictObject({ conversation: z.string(), assets: z.array(Asset), next });

export const ConversationPage = z.strictObject({
  conversation: z.string(),
  messages: z.array(
    z.strictObject({
      role: z.enum(["user", "assistant", "system"]),
      content: z.string(),
      turn: z.string().optional(),
      ts: z.number().optional().describe("milliseconds since 1970"),
    }),
  ),
  next,
});
