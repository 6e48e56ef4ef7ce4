import { isRecord, parseJsonOr } from "../../contract/index.ts";

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

interface AgUiToolCall {
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

/** A message as TanStack's client shows it: its parts in order of arrival. */
export interface UiMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: UiPart[];
  readonly createdAt: string;
}

type UiPart =
  | { readonly type: "text"; content: string }
  | { readonly type: "thinking"; content: string; readonly stepId: string }
  | UiCall
  | {
      readonly type: "tool-result";
      readonly toolCallId: string;
      readonly content: string;
      readonly state: "complete" | "error";
      readonly error?: string;
    };

interface UiCall {
  readonly type: "tool-call";
  readonly id: string;
  readonly name: string;
  arguments: string;
  input?: unknown;
  state: "awaiting-input" | "input-complete" | "complete" | "error";
  output?: unknown;
}

/** The messages that TanStack's client builds from a turn's events. It has no part for plans. */
export function toUiMessages(events: Iterable<object>): UiMessage[] {
  const list = new UiMessageList();
  for (const event of events) list.apply(event as AgUiEvent);
  return list.messages;
}

type MutableMessage = Omit<UiMessage, "id"> & { id: string };

class UiMessageList {
  readonly messages: MutableMessage[] = [];
  readonly #calls = new Map<string, { message: MutableMessage; call: UiCall }>();
  #active: MutableMessage | undefined;
  /** Whether the active message began without text. Its first text then gives it its id. */
  #isUnnamed = false;

  apply(event: AgUiEvent): void {
    const { messageId = "", toolCallId = "", delta = "" } = event;
    switch (event.type) {
      case "RUN_STARTED":
        this.#active = undefined;
        return;
      case "TEXT_MESSAGE_START":
        return event.role === "user"
          ? void this.#add(event, messageId, "user")
          : this.#speak(event, messageId);
      case "TEXT_MESSAGE_CONTENT": {
        const parts = this.messages.findLast(({ id }) => id === messageId)?.parts;
        const last = parts?.at(-1);
        if (last?.type === "text") last.content += delta;
        else parts?.push({ type: "text", content: delta });
        return;
      }
      case "REASONING_MESSAGE_CONTENT": {
        const { parts } = this.#ensure(event, messageId);
        const known = parts.find((part) => part.type === "thinking" && part.stepId === messageId);
        if (known?.type === "thinking") known.content += delta;
        else parts.push({ type: "thinking", content: delta, stepId: messageId });
        return;
      }
      case "TOOL_CALL_START":
        return this.#call(event, toolCallId);
      case "TOOL_CALL_ARGS": {
        const known = this.#calls.get(toolCallId);
        if (known) known.call.arguments += delta;
        return;
      }
      case "TOOL_CALL_END": {
        const call = this.#calls.get(toolCallId)?.call;
        if (call)
          Object.assign(call, { input: parseJsonOr(call.arguments, undefined), state: "input-complete" });
        return;
      }
      case "TOOL_CALL_RESULT":
        return this.#answer(event, toolCallId);
      default:
    }
  }

  #speak(event: AgUiEvent, messageId: string): void {
    const known = this.messages.find(({ id }) => id === messageId);
    if (known) this.#active = known;
    else if (this.#active && this.#isUnnamed) this.#active.id = messageId;
    else this.#active = this.#add(event, messageId, "assistant");
    this.#isUnnamed = false;
  }

  #call(event: AgUiEvent, id: string): void {
    if (this.#calls.has(id)) return;
    const parent = event.parentMessageId;
    const message = this.messages.find((one) => one.id === parent) ?? this.#ensure(event, id);
    const name = event.toolCallName ?? "";
    const call: UiCall = { type: "tool-call", id, name, arguments: "", state: "awaiting-input" };
    message.parts.push(call);
    this.#calls.set(id, { message, call });
  }

  #answer({ content: given, metadata }: AgUiEvent, toolCallId: string): void {
    const known = this.#calls.get(toolCallId);
    if (!known) return;
    const content = String(given ?? "");
    const state = isFailed(metadata) ? "error" : "complete";
    Object.assign(known.call, { state, output: parseJsonOr(content, undefined) ?? content });
    const error = state === "error" && content !== "" ? { error: content } : {};
    known.message.parts.push({ type: "tool-result", toolCallId, content, state, ...error });
  }

  #ensure(event: AgUiEvent, id: string): MutableMessage {
    if (this.#active) return this.#active;
    this.#isUnnamed = true;
    this.#active = this.#add(event, id, "assistant");
    return this.#active;
  }

  #add({ timestamp = 0 }: AgUiEvent, id: string, role: UiMessage["role"]): MutableMessage {
    const message: MutableMessage = { id, role, parts: [], createdAt: new Date(timestamp).toISOString() };
    this.messages.push(message);
    return message;
  }
}
