import { isRecord } from "./payload.ts";

/** A message as clients of this dialect keep it. */
export interface AgUiMessage {
  readonly id: string;
  readonly role: "user" | "assistant" | "tool" | "reasoning" | "activity";
  content?: string | object;
  toolCalls?: AgUiToolCall[];
  toolCallId?: string;
  activityType?: string;
  error?: string;
  subagentRunId?: string;
}

export interface AgUiToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; arguments: string };
}

/** What a client that had heard all of this would have: the same messages under the same ids. */
export function toMessages(told: Iterable<object>): AgUiMessage[] {
  const messages: AgUiMessage[] = [];
  for (const event of told) apply(messages, event as Told);
  return messages;
}

interface Told {
  readonly type: string;
  readonly messageId?: string;
  readonly toolCallId?: string;
  readonly toolCallName?: string;
  readonly parentMessageId?: string;
  readonly subagentRunId?: string;
  readonly activityType?: string;
  readonly role?: string;
  readonly delta?: string;
  readonly content?: unknown;
  readonly metadata?: unknown;
}

function apply(messages: AgUiMessage[], event: Told): void {
  const { messageId = "", toolCallId = "", delta = "" } = event;
  const by = event.subagentRunId === undefined ? {} : { subagentRunId: event.subagentRunId };
  switch (event.type) {
    case "TEXT_MESSAGE_START":
      return ensure(messages, {
        id: messageId,
        role: event.role === "user" ? "user" : "assistant",
        content: "",
        ...by,
      });
    case "REASONING_MESSAGE_START":
      return ensure(messages, { id: messageId, role: "reasoning", content: "", ...by });
    case "TEXT_MESSAGE_CONTENT":
    case "REASONING_MESSAGE_CONTENT": {
      const found = messages.find(({ id }) => id === messageId);
      if (found) found.content = `${String(found.content ?? "")}${delta}`;
      return;
    }
    case "TOOL_CALL_START": {
      if (findCall(messages, toolCallId)) return;
      const id = event.parentMessageId ?? toolCallId;
      ensure(messages, { id, role: "assistant", ...by });
      const owner = messages.find((message) => message.id === id);
      const call: AgUiToolCall = {
        id: toolCallId,
        type: "function",
        function: { name: event.toolCallName ?? "", arguments: "" },
      };
      if (owner) owner.toolCalls = [...(owner.toolCalls ?? []), call];
      return;
    }
    case "TOOL_CALL_ARGS": {
      const call = findCall(messages, toolCallId);
      if (call) call.function.arguments += delta;
      return;
    }
    case "TOOL_CALL_RESULT": {
      const content = String(event.content ?? "");
      const at = messages.findIndex(({ toolCalls }) => toolCalls?.some(({ id }) => id === toolCallId));
      const end = messages.findIndex(({ role }, index) => index > at && role !== "tool");
      const error = isFailure(event.metadata) ? { error: content } : {};
      messages.splice(end === -1 ? messages.length : end, 0, {
        id: messageId,
        role: "tool",
        toolCallId,
        content,
        ...error,
        ...by,
      });
      return;
    }
    case "ACTIVITY_SNAPSHOT": {
      ensure(messages, { id: messageId, role: "activity", activityType: event.activityType ?? "", ...by });
      const found = messages.find(({ id }) => id === messageId);
      if (found && isRecord(event.content)) found.content = event.content;
      return;
    }
    default:
  }
}

function ensure(messages: AgUiMessage[], message: AgUiMessage): void {
  if (!messages.some(({ id }) => id === message.id)) messages.push(message);
}

function findCall(messages: readonly AgUiMessage[], callId: string): AgUiToolCall | undefined {
  for (const { toolCalls } of messages) {
    const call = toolCalls?.find(({ id }) => id === callId);
    if (call) return call;
  }
  return undefined;
}

function isFailure(metadata: unknown): boolean {
  const extras = isRecord(metadata) ? metadata["tanstack"] : undefined;
  return isRecord(extras) && extras["state"] === "output-error";
}
