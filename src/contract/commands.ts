import { z } from "zod";
import { EVENT_DATA, TurnOptions } from "./event-data.ts";
import { SessionSpec } from "./session.ts";

export const CreateSession = SessionSpec;
export type CreateSession = SessionSpec;

/** The parts of a session that can change after its creation. What is left out stays as it is. */
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
  }).shape,
});
export type UpdateSession = z.infer<typeof UpdateSession>;

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
      "while a turn runs: wait for its end, go into it where the agent can take it, or be refused, also while a command runs",
    ),
  options: TurnOptions.optional(),
  instructions: z.string().min(1).optional().describe("the system's words, from this message's turn on"),
});
export type SendMessage = z.infer<typeof SendMessage>;

export const RunCommand = z.strictObject({
  command: z.string().min(1).describe("for sh, in the workspace"),
  cwd: z.string().optional().describe("another folder of the sandbox"),
  timeoutMs: z.int().min(1).optional().describe("an hour unless said otherwise"),
  background: z.boolean().optional().describe("told with its start and end; it never waits for either"),
});
export type RunCommand = z.infer<typeof RunCommand>;

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
  events: z
    .array(EVENT_DATA.custom)
    .optional()
    .describe("what the tool has to tell beside its result: `custom` events that stand before it, verbatim"),
});
export type ToolReply = z.infer<typeof ToolReply>;
