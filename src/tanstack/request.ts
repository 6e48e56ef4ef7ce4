import type { ModelMessage, TextOptions } from "@tanstack/ai";
import type { SluiceModelOptions } from "./adapter.ts";
import { toWireTools } from "./tools.ts";

/** What is asked of the server for one call of the adapter. */
export interface RunRequest {
  readonly threadId: string;
  readonly runId: string;
  readonly body: Record<string, unknown>;
}

/** `nth` is above 1 where one call of `chat()` comes to several runs here, as the engine ran tools in between. */
export function toRunRequest(options: TextOptions<SluiceModelOptions>, nth: number): RunRequest {
  const { messages, tools = [], modelOptions = {}, state, parentRunId } = options;
  const threadId = options.threadId ?? `thread-${crypto.randomUUID()}`;
  const runId = toNthRun(options.runId ?? `run-${crypto.randomUUID()}`, nth);
  const { sessionId, session, resume = options.resume } = modelOptions;
  const body = {
    threadId,
    runId,
    ...(parentRunId === undefined ? {} : { parentRunId }),
    state: state ?? {},
    messages: [...toSystem(options.systemPrompts), ...messages.map(toWireMessage)],
    tools: toWireTools(tools),
    context: [],
    forwardedProps: {
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(session === undefined ? {} : { sluice: session }),
    },
    ...(resume === undefined ? {} : { resume }),
  };
  return { threadId, runId, body };
}

export function toNthRun(runId: string, nth: number): string {
  return nth === 1 ? runId : `${runId}.${nth}`;
}

/** How many tools were answered since the user spoke. */
export function countAnswers(messages: readonly ModelMessage[]): number {
  const begun = messages.findLastIndex(({ role }) => role === "user");
  return messages.slice(begun + 1).filter(({ role }) => role === "tool").length;
}

function toSystem(prompts: TextOptions["systemPrompts"] = []): object[] {
  return prompts.map((prompt) => ({
    role: "system",
    content: typeof prompt === "string" ? prompt : prompt.content,
  }));
}

function toWireMessage(message: ModelMessage, index: number): object {
  const { role, content, toolCallId } = message;
  return { id: `message-${index}`, role, content, ...(toolCallId === undefined ? {} : { toolCallId }) };
}
