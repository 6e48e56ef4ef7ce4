import type { ModelMessage, TextOptions } from "@tanstack/ai";
import type { SluiceModelOptions } from "./adapter.ts";
import { toWireTools } from "./tools.ts";

/** What is asked of the server for one call of the adapter. */
export interface RunRequest {
  readonly threadId: string;
  readonly runId: string;
  readonly body: Record<string, unknown>;
}

export function toRunRequest(options: TextOptions<SluiceModelOptions>): RunRequest {
  const { messages, tools = [], modelOptions = {}, state, parentRunId } = options;
  const threadId = options.threadId ?? `thread-${crypto.randomUUID()}`;
  const runId = toRunId(options.runId ?? `run-${crypto.randomUUID()}`, messages);
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

/** One call of `chat()` may come to several runs here: one more for each time that the engine ran tools in between. */
function toRunId(runId: string, messages: readonly ModelMessage[]): string {
  const begun = messages.findLastIndex(({ role }) => role === "user");
  const answers = messages.slice(begun + 1).filter(({ role }) => role === "tool").length;
  return answers === 0 ? runId : `${runId}.${answers + 1}`;
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
