import { z } from "zod";

// The events and answers of this dialect. Unknown fields are allowed, as the protocol grows.

const Metadata = z.record(z.string(), z.unknown());

const event = <Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) =>
  z.looseObject({
    type: z.literal(type),
    timestamp: z.number().optional(),
    metadata: Metadata.optional(),
    ...fields,
  });

const by = { subagentRunId: z.string().optional() };
const message = { messageId: z.string(), ...by };
const call = { toolCallId: z.string(), ...by };
const run = { threadId: z.string(), runId: z.string() };

export const Interrupt = z.looseObject({
  id: z.string(),
  reason: z.string(),
  message: z.string().optional(),
  toolCallId: z.string().optional(),
  responseSchema: z.record(z.string(), z.unknown()).optional(),
  metadata: Metadata.optional(),
  ...by,
});

const Usage = z.looseObject({
  model: z.string().optional(),
  inputTokens: z.int().optional(),
  outputTokens: z.int().optional(),
  totalTokens: z.int().optional(),
  reasoningTokens: z.int().optional(),
  cachedInputTokens: z.int().optional(),
});

const Outcome = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("success"), pendingToolCallIds: z.array(z.string()).optional() }),
  z.looseObject({ type: z.literal("interrupt"), interrupts: z.array(Interrupt) }),
  z.looseObject({ type: z.literal("cancelled") }),
]);

const SubagentOutcome = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("success") }),
  z.looseObject({ type: z.literal("suspended"), interruptIds: z.array(z.string()).optional() }),
]);

/** A frame of a run. */
export const AgUiFrame = z.discriminatedUnion("type", [
  event("RUN_STARTED", {
    ...run,
    protocolVersion: z.string().optional(),
    parentRunId: z.string().optional(),
  }),
  event("RUN_FINISHED", { ...run, outcome: Outcome.optional(), usage: z.array(Usage).optional() }),
  event("RUN_ERROR", { message: z.string(), code: z.string().optional() }),
  event("TEXT_MESSAGE_START", { ...message, role: z.string().optional() }),
  event("TEXT_MESSAGE_CONTENT", { ...message, delta: z.string() }),
  event("TEXT_MESSAGE_END", message),
  event("REASONING_START", message),
  event("REASONING_MESSAGE_START", { ...message, role: z.literal("reasoning") }),
  event("REASONING_MESSAGE_CONTENT", { ...message, delta: z.string() }),
  event("REASONING_MESSAGE_END", message),
  event("REASONING_END", message),
  event("TOOL_CALL_START", {
    ...call,
    toolCallName: z.string(),
    parentMessageId: z.string().optional(),
  }),
  event("TOOL_CALL_ARGS", { ...call, delta: z.string() }),
  event("TOOL_CALL_END", call),
  event("TOOL_CALL_RESULT", { ...call, messageId: z.string(), content: z.unknown() }),
  event("STATE_SNAPSHOT", { snapshot: z.unknown() }),
  event("STATE_DELTA", { delta: z.array(z.unknown()).describe("JSON Patch") }),
  event("MESSAGES_SNAPSHOT", { messages: z.array(z.looseObject({ id: z.string(), role: z.string() })) }),
  event("ACTIVITY_SNAPSHOT", { ...message, activityType: z.string(), content: z.unknown() }),
  event("RAW", { event: z.unknown(), source: z.string().optional(), ...by }),
  event("CUSTOM", { name: z.string(), value: z.unknown(), ...by }),
  event("SUBAGENT_STARTED", {
    subagentRunId: z.string(),
    name: z.string(),
    description: z.string().optional(),
    parentSubagentRunId: z.string().optional(),
    parentToolCallId: z.string().optional(),
  }),
  event("SUBAGENT_FINISHED", { subagentRunId: z.string(), outcome: SubagentOutcome.optional() }),
  event("SUBAGENT_ERROR", { subagentRunId: z.string(), message: z.string(), code: z.string().optional() }),
]);

const UiPart = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), content: z.string() }),
  z.looseObject({ type: z.literal("thinking"), content: z.string(), stepId: z.string() }),
  z.looseObject({
    type: z.literal("tool-call"),
    id: z.string(),
    name: z.string(),
    arguments: z.string(),
    input: z.unknown().optional(),
    state: z.enum(["awaiting-input", "input-complete", "complete", "error"]),
    output: z.unknown().optional(),
  }),
  z.looseObject({
    type: z.literal("tool-result"),
    toolCallId: z.string(),
    content: z.string(),
    state: z.enum(["complete", "error"]),
    error: z.string().optional(),
  }),
]);

/** A thread as a reopened page shows it. */
export const AgUiThread = z.looseObject({
  messages: z.array(
    z.looseObject({
      id: z.string(),
      role: z.enum(["user", "assistant"]),
      parts: z.array(UiPart),
      createdAt: z.iso.datetime({ offset: true }),
    }),
  ),
  activeRun: z.looseObject({ runId: z.string() }).nullable(),
  interrupts: z.looseObject({ runId: z.string(), pending: z.array(Interrupt) }).nullable(),
  page: z.discriminatedUnion("truncated", [
    z.looseObject({ truncated: z.literal(false) }),
    z.looseObject({ truncated: z.literal(true), cursor: z.string().describe("for `before`") }),
  ]),
});

const flags = (...names: readonly string[]) =>
  z.looseObject(Object.fromEntries(names.map((name) => [name, z.boolean().optional()])));

/** The capabilities of an agent. */
export const AgUiCapabilities = z.looseObject({
  identity: z.looseObject({
    name: z.string(),
    type: z.string(),
    version: z.string().optional(),
    provider: z.string(),
  }),
  transport: flags("streaming", "websocket", "httpBinary", "pushNotifications", "resumable"),
  tools: flags("supported", "parallelCalls", "clientProvided"),
  output: flags("structuredOutput"),
  state: flags("snapshots", "deltas", "memory", "persistentState"),
  multiAgent: flags("supported", "delegation", "handoffs"),
  reasoning: flags("supported", "streaming", "encrypted"),
  multimodal: z.looseObject({}),
  execution: flags("codeExecution", "sandboxed"),
  humanInTheLoop: flags("supported", "approvals", "interventions", "feedback"),
  custom: z.looseObject({}),
});
