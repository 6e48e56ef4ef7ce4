import { isRecord } from "./payload.ts";
import { isFailed, type Told } from "./told.ts";

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
  const book = new Book();
  for (const event of told) apply(book, event as Told);
  return book.messages;
}

/** The messages in their order, each found by its id and by the calls that it made. */
class Book {
  readonly messages: AgUiMessage[] = [];
  readonly #byId = new Map<string, AgUiMessage>();
  readonly #calls = new Map<string, { owner: AgUiMessage; call: AgUiToolCall }>();

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

  addCall(owner: AgUiMessage, call: AgUiToolCall): void {
    owner.toolCalls = [...(owner.toolCalls ?? []), call];
    this.#calls.set(call.id, { owner, call });
  }

  /** Behind its call, and behind the results that stand there already. */
  addResult(result: AgUiMessage, callId: string): void {
    const owner = this.#calls.get(callId)?.owner;
    let at = owner ? this.messages.lastIndexOf(owner) + 1 : this.messages.length;
    while (this.messages[at]?.role === "tool") at += 1;
    this.messages.splice(at, 0, result);
  }
}

function apply(book: Book, event: Told): void {
  const { messageId = "", toolCallId = "", delta = "" } = event;
  const by = event.subagentRunId === undefined ? {} : { subagentRunId: event.subagentRunId };
  switch (event.type) {
    case "TEXT_MESSAGE_START": {
      const role = event.role === "user" ? "user" : "assistant";
      book.ensure({ id: messageId, role, content: "", ...by });
      return;
    }
    case "REASONING_MESSAGE_START":
      book.ensure({ id: messageId, role: "reasoning", content: "", ...by });
      return;
    case "TEXT_MESSAGE_CONTENT":
    case "REASONING_MESSAGE_CONTENT": {
      const found = book.find(messageId);
      if (found) found.content = `${String(found.content ?? "")}${delta}`;
      return;
    }
    case "TOOL_CALL_START": {
      if (book.findCall(toolCallId)) return;
      const owner = book.ensure({ id: event.parentMessageId ?? toolCallId, role: "assistant", ...by });
      const name = event.toolCallName ?? "";
      book.addCall(owner, { id: toolCallId, type: "function", function: { name, arguments: "" } });
      return;
    }
    case "TOOL_CALL_ARGS": {
      const call = book.findCall(toolCallId);
      if (call) call.function.arguments += delta;
      return;
    }
    case "TOOL_CALL_RESULT": {
      const content = String(event.content ?? "");
      const error = isFailed(event.metadata) ? { error: content } : {};
      book.addResult({ id: messageId, role: "tool", toolCallId, content, ...error, ...by }, toolCallId);
      return;
    }
    case "ACTIVITY_SNAPSHOT": {
      const { activityType = "", content } = event;
      const found = book.ensure({ id: messageId, role: "activity", activityType, ...by });
      if (isRecord(content)) found.content = content;
      return;
    }
    default:
  }
}
