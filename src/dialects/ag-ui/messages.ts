import { isRecord } from "../../contract/index.ts";

/** A message in the form of AG-UI clients. */
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

/** The messages that a client builds from these events, under the same ids. */
export function toMessages(events: Iterable<object>): AgUiMessage[] {
  const list = new MessageList();
  for (const event of events) apply(list, event as AgUiEvent);
  return list.messages;
}

/** Messages in order, found by id or by the id of a call in them. */
class MessageList {
  readonly messages: AgUiMessage[] = [];
  readonly #byId = new Map<string, AgUiMessage>();
  readonly #calls = new Map<string, { message: AgUiMessage; call: AgUiToolCall }>();

  find(id: string): AgUiMessage | undefined {
    return this.#byId.get(id);
  }

  ensure(message: AgUiMessage): AgUiMessage {
    const known = this.#byId.get(message.id);
    if (known) return known;
    this.messages.push(message);
    this.#byId.set(message.id, message);
    return message;
  }

  findCall(id: string): AgUiToolCall | undefined {
    return this.#calls.get(id)?.call;
  }

  addCall(message: AgUiMessage, call: AgUiToolCall): void {
    message.toolCalls = [...(message.toolCalls ?? []), call];
    this.#calls.set(call.id, { message, call });
  }

  /** Inserts a result after its call and after earlier results. */
  addResult(result: AgUiMessage, callId: string): void {
    const message = this.#calls.get(callId)?.message;
    let at = message ? this.messages.lastIndexOf(message) + 1 : this.messages.length;
    while (this.messages[at]?.role === "tool") at += 1;
    this.messages.splice(at, 0, result);
  }
}

function apply(list: MessageList, event: AgUiEvent): void {
  const { messageId = "", toolCallId = "", delta = "" } = event;
  const by = event.subagentRunId === undefined ? {} : { subagentRunId: event.subagentRunId };
  switch (event.type) {
    case "TEXT_MESSAGE_START": {
      const role = event.role === "user" ? "user" : "assistant";
      list.ensure({ id: messageId, role, content: "", ...by });
      return;
    }
    case "REASONING_MESSAGE_START":
      list.ensure({ id: messageId, role: "reasoning", content: "", ...by });
      return;
    case "TEXT_MESSAGE_CONTENT":
    case "REASONING_MESSAGE_CONTENT": {
      const found = list.find(messageId);
      if (found) found.content = `${String(found.content ?? "")}${delta}`;
      return;
    }
    case "TOOL_CALL_START": {
      if (list.findCall(toolCallId)) return;
      const message = list.ensure({ id: event.parentMessageId ?? toolCallId, role: "assistant", ...by });
      const name = event.toolCallName ?? "";
      list.addCall(message, { id: toolCallId, type: "function", function: { name, arguments: "" } });
      return;
    }
    case "TOOL_CALL_ARGS": {
      const call = list.findCall(toolCallId);
      if (call) call.function.arguments += delta;
      return;
    }
    case "TOOL_CALL_RESULT": {
      const content = String(event.content ?? "");
      const error = isFailed(event.metadata) ? { error: content } : {};
      list.addResult({ id: messageId, role: "tool", toolCallId, content, ...error, ...by }, toolCallId);
      return;
    }
    case "ACTIVITY_SNAPSHOT": {
      const { activityType = "", content } = event;
      const found = list.ensure({ id: messageId, role: "activity", activityType, ...by });
      if (isRecord(content)) found.content = content;
      return;
    }
    default:
  }
}

/** The fields of the events that make messages, as read back from frames. */
export interface AgUiEvent {
  readonly type: string;
  readonly timestamp?: number;
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

/** Whether a result's metadata marks the call as failed. */
export function isFailed(metadata: unknown): boolean {
  const extras = isRecord(metadata) ? metadata["tanstack"] : undefined;
  return isRecord(extras) && extras["state"] === "output-error";
}
