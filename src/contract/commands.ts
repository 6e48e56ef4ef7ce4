import { z } from "zod";
import { EVENT_DATA, TurnOptions } from "./event-data.ts";
import { SessionSpec } from "./session.ts";

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
    .enum(["queue", "steer", "alone"])
    .optional()
    .describe(
      "during a turn: `queue` waits for its end, `steer` adds the message to it if the agent can, `alone` is refused, also during a command",
    ),
  options: TurnOptions.optional(),
  instructions: z.string().min(1).optional().describe("system instructions from this message's turn on"),
});
export type SendMessage = z.infer<typeof SendMessage>;

export const RunCommand = z.strictObject({
  command: z.string().min(1).describe("for sh, run in the workspace"),
  cwd: z.string().optional().describe("another folder of the sandbox to run in"),
  timeoutMs: z.int().min(1).optional().describe("the time limit (default: an hour)"),
  background: z
    .boolean()
    .optional()
    .describe("noted in the command's start event; the request never waits for the command's end"),
});
export type RunCommand = z.infer<typeof RunCommand>;

export const PermissionReply = z.strictObject({
  reply: z.enum(["once", "always", "reject"]),
  message: z.string().optional().describe("the reason for the agent, with a rejection"),
});
export type PermissionReply = z.infer<typeof PermissionReply>;

export const QuestionReply = z.strictObject({ answers: z.array(z.array(z.string())) });
export type QuestionReply = z.infer<typeof QuestionReply>;

export const ToolReply = z.strictObject({
  output: z.string(),
  isError: z.boolean().optional(),
  events: z
    .array(EVENT_DATA.custom)
    .optional()
    .describe("`custom` events of the tool, which precede its result unchanged"),
});
export type ToolReply = z.infer<typeof ToolReply>;
