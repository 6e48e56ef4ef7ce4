import { z } from "zod";
import { SessionSpec } from "./session.ts";

/** The bodies that the universal dialect takes, and what the engine does with each. */

export const CreateSession = SessionSpec;
export type CreateSession = SessionSpec;

export const Attachment = z.strictObject({
  path: z.string().min(1),
  mime: z.string().optional(),
  filename: z.string().optional(),
});
export type Attachment = z.infer<typeof Attachment>;

export const SendMessage = z.strictObject({
  message: z.string(),
  attachments: z.array(Attachment).optional(),
  delivery: z
    .enum(["queue", "steer"])
    .optional()
    .describe("while a turn runs: wait for its end, or go into it where the agent can take it"),
});
export type SendMessage = z.infer<typeof SendMessage>;

export const PermissionReply = z.strictObject({
  reply: z.enum(["once", "always", "reject"]),
  message: z.string().optional().describe("told to the agent with a rejection"),
});
export type PermissionReply = z.infer<typeof PermissionReply>;

export const QuestionReply = z.strictObject({ answers: z.array(z.array(z.string())) });
export type QuestionReply = z.infer<typeof QuestionReply>;

export const ToolReply = z.strictObject({
  output: z.string(),
  isError: z.boolean().optional(),
});
export type ToolReply = z.infer<typeof ToolReply>;
