import type { AgUiMessage } from "./messages.ts";

/** A message as TanStack's client paints it: one with all that belongs to it as parts. */
export interface UiMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: UiPart[];
}

export type UiPart =
  | { type: "text"; content: string }
  | { type: "thinking"; content: string; stepId: string }
  | {
      type: "tool-call";
      id: string;
      name: string;
      arguments: string;
      input?: unknown;
      state: "input-complete" | "complete" | "error";
      output?: unknown;
    }
  | { type: "tool-result"; toolCallId: string; content: string; state: "complete" | "error"; error?: string };

/** Thoughts stand before what they led to, results behind their calls. Plans have no part of theirs. */
export function toUiMessages(messages: readonly AgUiMessage[]): UiMessage[] {
  const painted: UiMessage[] = [];
  let thoughts: UiPart[] = [];
  for (const message of messages) {
    if (message.role === "activity") continue;
    const content = typeof message.content === "string" ? message.content : "";
    if (message.role === "reasoning") {
      thoughts.push({ type: "thinking", content, stepId: message.id });
    } else if (message.role === "tool") {
      addResult(painted, message, content);
    } else {
      const text: UiPart[] = content === "" ? [] : [{ type: "text", content }];
      painted.push({
        id: message.id,
        role: message.role,
        parts: [...thoughts, ...text, ...callsOf(message)],
      });
      thoughts = [];
    }
  }
  if (thoughts.length > 0)
    painted.push({ id: `${stepOf(thoughts)}_thought`, role: "assistant", parts: thoughts });
  return painted;
}

function stepOf([first]: readonly UiPart[]): string {
  return first?.type === "thinking" ? first.stepId : "message";
}

function callsOf({ toolCalls = [] }: AgUiMessage): UiPart[] {
  return toolCalls.map(({ id, function: { name, arguments: text } }) => {
    const input = parse(text);
    return {
      type: "tool-call",
      id,
      name,
      arguments: text,
      ...(input === undefined ? {} : { input }),
      state: "input-complete",
    };
  });
}

function addResult(
  painted: readonly UiMessage[],
  { toolCallId = "", error }: AgUiMessage,
  content: string,
): void {
  const isOurs = (part: UiPart): boolean => part.type === "tool-call" && part.id === toolCallId;
  const owner = painted.findLast(({ parts }) => parts.some(isOurs));
  const call = owner?.parts.find(isOurs);
  if (!owner || call?.type !== "tool-call") return;
  const state = error === undefined ? "complete" : "error";
  call.state = state;
  call.output = error === undefined ? (parse(content) ?? content) : { error };
  owner.parts.push({
    type: "tool-result",
    toolCallId,
    content,
    state,
    ...(error === undefined ? {} : { error }),
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
