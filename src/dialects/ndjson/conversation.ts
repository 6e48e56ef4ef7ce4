import type { ContentPart } from "../../contract/index.ts";

/** How many of a conversation's turns go to the agent with a prompt; older ones are left out. */
export const REPLAY_TURN_LIMIT = 20;

export interface ChatMessage {
  readonly role: "user" | "assistant" | "system";
  readonly content: string;
}

/** What was asked and what was answered; a turn that failed has no answer. */
export interface ChatTurn {
  readonly user?: string;
  readonly assistant?: string;
}

/** A turn begins with each message of the user's; the system's words belong to none. */
export function toTurns(messages: readonly ChatMessage[]): ChatTurn[] {
  const turns: ChatTurn[] = [];
  for (const { role, content } of messages) {
    const last = turns.at(-1);
    if (role === "user") turns.push({ user: content });
    else if (role === "assistant" && !last) turns.push({ assistant: content });
    else if (role === "assistant")
      turns[turns.length - 1] = { ...last, assistant: join(last?.assistant, content) };
  }
  return turns;
}

/** The newest turns as a part beside the prompt: data and not words, so that nobody mistakes them for the prompt. */
export function toReplay(turns: readonly ChatTurn[], limit: number = REPLAY_TURN_LIMIT): ContentPart[] {
  const kept = limit <= 0 ? [] : turns.slice(-limit);
  if (kept.length === 0) return [];
  const omitted = turns.length - kept.length;
  const replay: Replay = { earlier_conversation: kept, ...(omitted > 0 && { omitted_turns: omitted }) };
  return [{ type: "json", json: replay }];
}

export interface Replay {
  readonly earlier_conversation: readonly ChatTurn[];
  readonly omitted_turns?: number;
}

/** The turns that came with a message; undefined where none did. */
export function fromReplay(content: readonly ContentPart[]): Replay | undefined {
  const part = content.find((one) => one.type === "json" && isReplay(one.json));
  return part?.type === "json" ? (part.json as Replay) : undefined;
}

function isReplay(value: unknown): boolean {
  return Array.isArray((value as Partial<Replay> | null)?.earlier_conversation);
}

function join(before: string | undefined, text: string): string {
  return before === undefined ? text : `${before}\n\n${text}`;
}
