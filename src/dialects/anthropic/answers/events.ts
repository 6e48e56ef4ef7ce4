import { z } from "zod";
import { MessageBlock, ResultBlock, TextBlock } from "../parse.ts";
import { Metadata } from "../resources/resource.ts";
import { SessionAgent, time } from "./agents.ts";

// The events that this server writes. Events of a client have all fields that the client sent.

const event = <Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) =>
  z.object({ id: z.string(), type: z.literal(type), processed_at: time, ...fields });

const sent = <Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) =>
  z.looseObject({
    id: z.string(),
    type: z.literal(type),
    processed_at: time.nullish().describe("null while the event waits for its turn"),
    ...fields,
  });

const input = z.record(z.string(), z.unknown());
const permission = { evaluated_permission: z.enum(["allow", "ask", "deny"]).optional() };
const result = { content: z.array(ResultBlock).nullish(), is_error: z.boolean().nullish() };

const sessionError = <Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) =>
  z.object({
    type: z.literal(type),
    message: z.string(),
    retry_status: z.object({ type: z.enum(["retrying", "exhausted", "terminal"]) }),
    ...fields,
  });
const repository = { repository_url: z.string().nullable() };

export const SessionError = z.discriminatedUnion("type", [
  sessionError("unknown_error", {}),
  sessionError("model_overloaded_error", {}),
  sessionError("model_rate_limited_error", {}),
  sessionError("model_request_failed_error", {}),
  sessionError("billing_error", {}),
  sessionError("tool_use_limit_reached_error", {}),
  sessionError("compaction_limit_reached_error", {}),
  sessionError("mcp_connection_failed_error", { mcp_server_name: z.string() }),
  sessionError("mcp_authentication_failed_error", { mcp_server_name: z.string() }),
  sessionError("credential_host_unreachable_error", { credential_id: z.string(), vault_id: z.string() }),
  sessionError("repository_authentication_error", repository),
  sessionError("repository_forbidden_error", repository),
  sessionError("repository_not_found_error", repository),
  sessionError("repository_checkout_error", repository),
  sessionError("repository_clone_error", repository),
]);

const StopReason = z.discriminatedUnion("type", [
  z.object({ type: z.literal("end_turn") }),
  z.object({ type: z.literal("requires_action"), event_ids: z.array(z.string()) }),
  z.object({ type: z.literal("retries_exhausted") }),
  z.object({ type: z.literal("budget_reached") }),
  z.object({ type: z.literal("refusal") }),
]);

const SENT = [
  sent("user.message", { content: z.array(MessageBlock) }),
  sent("user.interrupt", {}),
  sent("user.tool_confirmation", {
    tool_use_id: z.string(),
    result: z.enum(["allow", "deny"]),
    deny_message: z.string().nullish(),
  }),
  sent("user.custom_tool_result", { custom_tool_use_id: z.string(), ...result }),
  sent("user.tool_result", { tool_use_id: z.string(), ...result }),
  sent("system.message", { content: z.array(TextBlock) }),
] as const;

const WRITTEN = [
  event("agent.message", { content: z.array(TextBlock) }),
  event("agent.thinking", {}),
  event("agent.tool_use", { name: z.string(), input, ...permission }),
  event("agent.tool_result", { tool_use_id: z.string(), ...result }),
  event("agent.mcp_tool_use", { mcp_server_name: z.string(), name: z.string(), input, ...permission }),
  event("agent.mcp_tool_result", { mcp_tool_use_id: z.string(), ...result }),
  event("agent.custom_tool_use", { name: z.string(), input }),
  event("agent.thread_context_compacted", {}),
  event("session.status_running", {}),
  event("session.status_rescheduled", {}),
  event("session.status_idle", {
    stop_reason: StopReason,
    stop_details: z
      .looseObject({ type: z.literal("refusal"), explanation: z.string().nullable() })
      .nullable(),
  }),
  event("session.status_terminated", {}),
  event("session.error", { error: SessionError }),
  event("session.updated", {
    title: z.string().nullish(),
    metadata: Metadata.nullish(),
    agent: SessionAgent.nullish(),
  }),
  event("session.deleted", {}),
  event("span.model_request_start", {}),
  event("span.model_request_end", {
    model_request_start_id: z.string(),
    is_error: z.boolean().nullable(),
    model_usage: z.object({
      input_tokens: z.int(),
      output_tokens: z.int(),
      cache_read_input_tokens: z.int(),
      cache_creation_input_tokens: z.int(),
    }),
  }),
] as const;

/** An event that a client sent, as the server keeps it. */
export const SentEvent = z.discriminatedUnion("type", SENT);

/** An event of a session's history. */
export const SessionEvent = z.discriminatedUnion("type", [...SENT, ...WRITTEN]);

/** A frame of a session's stream: an event, or the preview of one that grows. */
export const StreamEvent = z.discriminatedUnion("type", [
  ...SENT,
  ...WRITTEN,
  z.object({
    type: z.literal("event_start"),
    event: z.object({ id: z.string(), type: z.enum(["agent.message", "agent.thinking"]) }),
  }),
  z.object({
    type: z.literal("event_delta"),
    event_id: z.string(),
    delta: z.object({ type: z.literal("content_delta"), index: z.int(), content: TextBlock }),
  }),
]);
