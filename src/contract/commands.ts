import { z } from "zod";
import { EVENT_DATA } from "./event-data.ts";
import { Budget, TurnOptions } from "./event-fields.ts";
import { SessionSpec } from "./session.ts";

export const CreateSession = SessionSpec;
export type CreateSession = SessionSpec;

/** The parts of a session that can change after its creation. An absent field keeps its value. */
export const UpdateSession = z.strictObject({
  title: z.string().nullable().optional(),
  metadata: z.record(z.string(), z.unknown()).optional().describe("replaces the whole metadata"),
  ...SessionSpec.pick({
    agentMode: true,
    permissionMode: true,
    model: true,
    variant: true,
    mcp: true,
    tools: true,
    systemPrompt: true,
    instructions: true,
    env: true,
    unattended: true,
    autoCheckpoint: true,
    lasting: true,
    turnTimeoutMs: true,
    silenceTimeoutMs: true,
    retries: true,
    models: true,
    fallback: true,
    policy: true,
  }).shape,
  budget: Budget.nullable()
    .optional()
    .describe(
      "may change while a turn runs; a change answers an open request for more; null removes the budget",
    ),
});
export type UpdateSession = z.infer<typeof UpdateSession>;

export const Attachment = z.strictObject({
  path: z.string().min(1),
  mime: z.string().optional(),
  filename: z.string().max(1024).optional(),
});
export type Attachment = z.infer<typeof Attachment>;

export const SendMessage = z.strictObject({
  message: z.string(),
  attachments: z.array(Attachment).optional(),
  delivery: z
    .enum(["queue", "steer", "alone"])
    .optional()
    .describe(
      "while a turn runs: wait for its end, join it if the agent can take more input, or be refused; `alone` is also refused while a command runs",
    ),
  options: TurnOptions.optional(),
  instructions: z
    .string()
    .min(1)
    .optional()
    .describe("system instructions, valid from this message's turn on"),
});
export type SendMessage = z.infer<typeof SendMessage>;

export const RunCommand = z.strictObject({
  command: z.string().min(1).describe("run by sh in the workspace"),
  cwd: z.string().optional().describe("another folder of the sandbox"),
  timeoutMs: z.int().min(1).optional().describe("one hour by default"),
  stdin: z
    .string()
    .max(16 * 1024 * 1024)
    .optional()
    .describe("its standard input, which is empty by default; it is in no event"),
  stdinEncoding: z.enum(["utf8", "base64"]).optional().describe("of `stdin`; utf8 by default"),
  background: z.boolean().optional().describe("the client does not wait for the command's end"),
});
export type RunCommand = z.infer<typeof RunCommand>;

export const PermissionReply = z.strictObject({
  reply: z.enum(["once", "always", "reject"]),
  message: z.string().optional().describe("sent to the agent with a rejection"),
});
export type PermissionReply = z.infer<typeof PermissionReply>;

/** A question that is not answered, and why. */
export const QuestionRejection = z.strictObject({
  message: z.string().min(1).max(10_000).optional().describe("sent to the agent, if it takes a reason"),
});
export type QuestionRejection = z.infer<typeof QuestionRejection>;

export const QuestionReply = z.strictObject({ answers: z.array(z.array(z.string())) });
export type QuestionReply = z.infer<typeof QuestionReply>;

export const ToolReply = z.strictObject({
  output: z.string(),
  isError: z.boolean().optional(),
  events: z
    .array(EVENT_DATA.custom)
    .optional()
    .describe("`custom` events of the tool, stored unchanged before its result"),
});
export type ToolReply = z.infer<typeof ToolReply>;
