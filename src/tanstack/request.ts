import type { ModelMessage, RunAgentResumeItem, TextOptions } from "@tanstack/ai";
import { toWireTools } from "./tools.ts";
import type { SessionSpec } from "../contract/session.ts";

/** The request to the server for one call of the adapter. */
export interface RunRequest {
  readonly threadId: string;
  readonly runId: string;
  readonly body: Record<string, unknown>;
}

/** `nth` is the number of the run in its call of `chat()`: TanStack's engine starts another one after it ran tools. */
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

/** The count of tool results since the user's last message. */
function countAnswers(messages: readonly ModelMessage[]): number {
  const prompt = messages.findLastIndex(({ role }) => role === "user");
  return messages.slice(prompt + 1).filter(({ role }) => role === "tool").length;
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

const MAX_CALLS = 1_000;

/**
 * Numbers the runs of a call of `chat()` by the count of its tool results. A repeated request has the same count, so it
 * gets the same run.
 */
export class RunCounter {
  readonly #seen = new Map<string, number[]>();

  count(runId: string | undefined, messages: readonly ModelMessage[]): number {
    if (runId === undefined) return 1;
    const answers = countAnswers(messages);
    const seen = this.#seen.get(runId) ?? [];
    if (!seen.includes(answers)) seen.push(answers);
    this.#seen.set(runId, seen);
    const [oldest] = this.#seen.size > MAX_CALLS ? this.#seen.keys() : [];
    if (oldest !== undefined) this.#seen.delete(oldest);
    return seen.indexOf(answers) + 1;
  }
}

export interface SluiceModelOptions {
  /** The agent's own id of the conversation to continue, from `<harness>.session-id`. */
  readonly sessionId?: string | undefined;
  /** Answers to the agent's interrupts: the engine of `chat()` takes only answers to its own. */
  readonly resume?: readonly RunAgentResumeItem[] | undefined;
  /** Settings of the session that a thread's first run creates: model, directory, sandbox… */
  readonly session?: Partial<Omit<SessionSpec, "agent" | "fork">>;
}
