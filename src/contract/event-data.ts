import { z } from "zod";
import { ContentPart, Item } from "./items.ts";

export const StderrOutput = z.strictObject({
  head: z.string().optional(),
  tail: z.string().optional(),
  truncated: z.boolean(),
  total_lines: z.int().optional(),
});
export type StderrOutput = z.infer<typeof StderrOutput>;

export const Usage = z.strictObject({
  input_tokens: z.int().nonnegative().optional(),
  output_tokens: z.int().nonnegative().optional(),
  cache_read_tokens: z.int().nonnegative().optional(),
  cache_write_tokens: z.int().nonnegative().optional(),
  reasoning_tokens: z.int().nonnegative().optional(),
  cost_usd: z.number().nonnegative().optional(),
});
export type Usage = z.infer<typeof Usage>;

export const EventError = z.strictObject({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean().optional(),
});
export type EventError = z.infer<typeof EventError>;

export const PlanEntry = z.strictObject({
  content: z.string(),
  status: z.enum(["pending", "in_progress", "completed"]),
  priority: z.enum(["high", "medium", "low"]),
});
export type PlanEntry = z.infer<typeof PlanEntry>;

export const ActionKind = z.enum(["permission", "question", "tool"]);
export type ActionKind = z.infer<typeof ActionKind>;

export const StopReason = z.enum([
  "end_turn",
  "max_tokens",
  "max_turns",
  "refusal",
  "interrupted",
  "timeout",
  "terminated",
  "retries_exhausted",
  "model_error",
  "agent_exited",
  "agent_lost",
]);
export type StopReason = z.infer<typeof StopReason>;

/** A sender's settings for one turn. */
export const TurnOptions = z.strictObject({
  timeoutMs: z.int().min(1).optional().describe("the time limit of the turn, in place of the session's"),
  background: z.boolean().optional().describe("the client does not wait for the turn's end"),
  checkpointComment: z.string().optional().describe("of the checkpoint at the turn's end, if one is made"),
});
export type TurnOptions = z.infer<typeof TurnOptions>;

const Permission = {
  permission_id: z.string(),
  action: z.string(),
  metadata: z.unknown().optional(),
};
const Question = { question_id: z.string(), prompt: z.string(), options: z.array(z.string()) };

/** The universal transcript schema's event types. */
const PLAIN_DATA = {
  "session.started": z.strictObject({ metadata: z.unknown().optional() }),
  "session.ended": z.strictObject({
    reason: z.enum(["completed", "error", "terminated"]),
    terminated_by: z.enum(["agent", "daemon"]),
    message: z.string().optional(),
    exit_code: z.int().optional(),
    stderr: StderrOutput.optional(),
  }),
  "item.started": z.strictObject({ item: Item }),
  "item.delta": z.strictObject({
    item_id: z.string(),
    native_item_id: z.string().optional(),
    delta: z.string(),
  }),
  "item.completed": z.strictObject({ item: Item }),
  "permission.requested": z.strictObject({ ...Permission, status: z.literal("requested") }),
  "permission.resolved": z.strictObject({ ...Permission, status: z.enum(["approved", "denied"]) }),
  "question.requested": z.strictObject({ ...Question, status: z.literal("requested") }),
  "question.resolved": z.strictObject({
    ...Question,
    status: z.enum(["answered", "rejected"]),
    response: z.string().optional(),
  }),
  error: z.strictObject({
    message: z.string(),
    code: z.string().optional(),
    details: z.unknown().optional(),
  }),
  "agent.unparsed": z.strictObject({
    error: z.string(),
    location: z.string(),
    raw_hash: z.string().optional(),
  }),
};

const SandboxData = z.strictObject({
  sandbox_id: z.string(),
  provider: z.string(),
  isolated: z.boolean().optional(),
  message: z.string().optional(),
});

const OutputStream = z.enum(["stdout", "stderr"]);

/** The types that PROTOCOL.md adds. */
const EXTENSION_DATA = {
  "session.updated": z
    .strictObject({
      title: z.string().nullable(),
      model: z.string().nullable(),
      variant: z.string().nullable(),
      native_session_id: z.string().nullable().describe("null if the agent starts again without its memory"),
      metadata: z.unknown(),
      agent: z.unknown().describe("the whole definition of the agent, for a dialect that keeps one"),
      settings: z.unknown().describe("changed settings of the session's spec, valid from the next turn on"),
      archived_at: z
        .string()
        .describe("the time at which a dialect archived the session, which is read-only from then on"),
      input_id: z.string().describe("the input that brought the instructions"),
    })
    .partial(),
  "session.deleted": z.strictObject({}),
  "input.accepted": z.strictObject({
    input_id: z.string(),
    turn_id: z.string(),
    via: z.string().describe("the client's dialect"),
    by: z.string().optional().describe("the token of its author, by its id"),
    content: z.array(ContentPart),
    payload: z
      .unknown()
      .optional()
      .describe("the client's request, unchanged, if its dialect echoes requests"),
    instructions: z.string().optional().describe("system instructions, valid from this turn on"),
    options: TurnOptions.optional(),
  }),
  "turn.started": z.strictObject({
    turn_id: z.string(),
    input_ids: z.array(z.string()),
    inputs: z
      .array(z.strictObject({ input_id: z.string(), sequence: z.int(), payload: z.unknown() }))
      .optional()
      .describe("the payloads of the inputs again, so that the turn's readers need no earlier event"),
    options: TurnOptions.optional(),
  }),
  "turn.waiting": z.strictObject({
    turn_id: z.string(),
    actions: z.array(z.strictObject({ kind: ActionKind, id: z.string() })),
  }),
  "turn.retrying": z.strictObject({
    turn_id: z.string(),
    attempt: z.int(),
    max_attempts: z.int().optional(),
    delay_ms: z.number(),
    error: EventError,
  }),
  "turn.resumed": z.strictObject({ turn_id: z.string(), reason: z.enum(["answered", "retry"]) }),
  "turn.ended": z.strictObject({
    turn_id: z.string(),
    status: z.enum(["completed", "failed", "interrupted"]),
    stop_reason: StopReason,
    error: EventError.optional(),
    details: z.unknown().optional(),
    usage: Usage.optional(),
  }),
  "interrupt.requested": z.strictObject({
    turn_id: z.string().describe("empty if no turn was running"),
    by: z.string().optional(),
    payload: z.unknown().optional(),
  }),
  "tool.requested": z.strictObject({
    request_id: z.string(),
    name: z.string(),
    input: z.unknown(),
    call_id: z.string().optional(),
    builtin: z
      .literal(true)
      .optional()
      .describe("a built-in tool of the agent that the application runs instead"),
  }),
  "tool.resolved": z.strictObject({
    request_id: z.string(),
    name: z.string(),
    status: z.enum(["completed", "failed", "cancelled"]),
    content: z.array(ContentPart),
    by: z.string().optional(),
    payload: z.unknown().optional(),
  }),
  "plan.updated": z.strictObject({ entries: z.array(PlanEntry) }),
  "model.started": z.strictObject({ request_id: z.string(), model: z.string().optional() }),
  "model.ended": z.strictObject({
    request_id: z.string(),
    model: z.string().optional(),
    usage: Usage.optional(),
    usage_source: z.enum(["reported", "estimated"]).optional(),
    error: EventError.optional(),
  }),
  "context.compacted": z.strictObject({ trigger: z.string().optional(), summary: z.string().optional() }),
  "file.changed": z.strictObject({
    type: z.enum(["create", "change", "delete"]),
    path: z.string(),
    timestamp: z.int(),
  }),
  "workspace.diffed": z.strictObject({ path: z.string(), diff: z.string() }),
  "sandbox.boot": SandboxData,
  "sandbox.ready": SandboxData,
  "sandbox.connected": SandboxData,
  "sandbox.paused": SandboxData,
  "sandbox.resumed": SandboxData,
  "sandbox.killed": SandboxData,
  "sandbox.error": SandboxData,
  "process.started": z.strictObject({
    process: z.int().describe("the number of the process in its session, from 1"),
    harness: z.string(),
    resumed: z.string().optional().describe("the native session id that the process continues"),
  }),
  "process.ended": z.strictObject({
    process: z.int(),
    exit_code: z.int().optional(),
    signal: z.string().optional(),
    reason: z.enum(["exited", "stopped", "lost"]),
    stderr: StderrOutput.optional(),
  }),
  "process.output": z.strictObject({
    process: z.int(),
    stream: OutputStream,
    text: z.string(),
    offset: z.int().describe("the bytes of the stream up to the end of this text"),
  }),
  "command.started": z.strictObject({
    command_id: z.string(),
    command: z.string(),
    cwd: z.string().optional(),
    timeout_ms: z.int().optional(),
    background: z.boolean().optional().describe("the client does not wait for the command's end"),
  }),
  "command.output": z.strictObject({
    command_id: z.string(),
    stream: OutputStream,
    text: z.string(),
    offset: z.int().describe("the bytes of the stream up to the end of this text"),
  }),
  "command.ended": z.strictObject({
    command_id: z.string(),
    exit_code: z.int().optional(),
    status: z.enum(["completed", "failed", "interrupted"]),
    reason: z.enum(["exited", "interrupted", "timeout", "terminated", "lost"]).optional(),
  }),
  "checkpoint.created": z.strictObject({
    checkpoint_id: z.string(),
    hash: z.string(),
    parent_id: z.string().optional(),
    comment: z.string().optional(),
    size_bytes: z.int().optional(),
  }),
  "checkpoint.restored": z.strictObject({ checkpoint_id: z.string(), hash: z.string() }),
  custom: z.strictObject({ name: z.string(), value: z.unknown() }),
};

/** The name of the `custom` event before the answer to a question: it names the author, which the answer itself cannot. */
export const AUTHOR_EVENT = "sluice.author";

/** The data of each event type. */
export const EVENT_DATA = { ...PLAIN_DATA, ...EXTENSION_DATA };

export type EventType = keyof typeof EVENT_DATA;
export type PlainEventType = keyof typeof PLAIN_DATA;
export type EventData<T extends EventType> = z.infer<(typeof EVENT_DATA)[T]>;

export const EVENT_TYPES: readonly EventType[] = Object.keys(EVENT_DATA) as EventType[];

const PLAIN = new Set<string>(Object.keys(PLAIN_DATA));

/** Whether the universal transcript schema defines the type. Clients get every other type only on request. */
export function isPlain(type: string): type is PlainEventType {
  return PLAIN.has(type);
}
