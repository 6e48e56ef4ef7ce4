import { z } from "zod";
import { ContentPart, Item } from "./items.ts";
import {
  BUDGET_DATA,
  MODEL_DATA,
  StderrOutput,
  Usage,
  EventError,
  PlanEntry,
  ActionKind,
  StopReason,
  TurnOptions,
} from "./event-fields.ts";

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
  node: z.string().exactOptional().describe("the server that has it, where several share a database"),
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
  "input.replaced": z
    .strictObject({
      input_id: z.string(),
      turn_id: z.string(),
      content: z.array(ContentPart),
      options: TurnOptions.optional(),
      by: z.string().optional(),
    })
    .describe("the new content of an input that waits; its turn begins with it"),
  "input.withdrawn": z
    .strictObject({
      input_id: z.string(),
      turn_id: z.string(),
      by: z.string().optional(),
      payload: z.unknown().optional().describe("the client's request, as in `input.accepted`"),
    })
    .describe("an input that waited gets no turn"),
  "input.reordered": z
    .strictObject({ input_ids: z.array(z.string()), by: z.string().optional() })
    .describe("the new order of all inputs that wait, the next first"),
  "turn.started": z.strictObject({
    turn_id: z.string(),
    input_ids: z.array(z.string()),
    inputs: z
      .array(
        z.strictObject({
          input_id: z.string(),
          sequence: z.int(),
          payload: z.unknown(),
          content: z
            .array(ContentPart)
            .optional()
            .describe("of a replaced input: its content, which the payload does not have"),
        }),
      )
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
    until: z.iso
      .datetime()
      .optional()
      .describe("the reset of the provider's limit, which the gateway waits for"),
    offset: z.int().optional().describe("as in `model.started`"),
  }),
  "turn.resumed": z.strictObject({ turn_id: z.string(), reason: z.enum(["answered", "retry"]) }),
  "turn.ended": z.strictObject({
    turn_id: z.string(),
    status: z.enum(["completed", "failed", "interrupted"]),
    stop_reason: StopReason,
    error: EventError.optional(),
    details: z.unknown().optional(),
    usage: Usage.optional(),
    session_lasts: z
      .literal(true)
      .optional()
      .describe("the session takes messages on, although its agent or model failed for good"),
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
  ...MODEL_DATA,
  ...BUDGET_DATA,
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
  "sandbox.moving": SandboxData,
  "sandbox.paused": SandboxData,
  "sandbox.resumed": SandboxData,
  "sandbox.killed": SandboxData,
  "sandbox.error": SandboxData,
  "process.started": z.strictObject({
    process: z.int().describe("the number of the process in its session, from 1"),
    harness: z.string(),
    resumed: z.string().optional().describe("the native session id that the process continues"),
    credential: z
      .enum(["outside", "plan_login", "inside"])
      .optional()
      .describe("where the agent's credential is: outside of the sandbox, or in it"),
    gateway: z
      .literal(true)
      .optional()
      .describe("its model requests go through the gateway, which measures them"),
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

/**
 * The name of the `custom` event directly before a `question.resolved`. It names the author of the answer, for whom
 * `question.resolved` has no field.
 */
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
