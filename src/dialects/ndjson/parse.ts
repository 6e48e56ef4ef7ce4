import { z } from "zod";
import { type ContentPart, SessionId, SessionSpec, SluiceError } from "../../contract/index.ts";
import type { NdjsonView } from "./projection.ts";

const Content = z
  .union([z.string(), z.array(z.object({ type: z.literal("text"), text: z.string() }))])
  .transform((content) =>
    typeof content === "string" ? content : content.map(({ text }) => text).join("\n"),
  );

const Message = z.strictObject({ role: z.enum(["user", "assistant", "system"]), content: Content });

const { agent, ...settings } = SessionSpec.shape;

/** A request for one turn: the prompt, earlier messages, and settings for the session of a new conversation. */
export const Dispatch = z
  .strictObject({
    prompt: z.string().min(1).optional().describe("the prompt"),
    messages: z
      .array(Message)
      .min(1)
      .optional()
      .describe("the conversation so far; without a prompt, its last message is the prompt"),
    conversation: SessionId.optional().describe("the conversation to continue, or the id of a new one"),
    session: SessionId.optional().describe("the same as conversation"),
    cancelOnDisconnect: z
      .boolean()
      .optional()
      .describe("whether the run ends when its reader disconnects (default: true)"),
    replayTurnLimit: z.int().min(0).max(1000).optional(),
    agent: agent.optional(),
    ...settings,
  })
  .refine(({ prompt, messages }) => prompt !== undefined || messages?.at(-1)?.role === "user", {
    error: "expected a prompt, or messages of which the last one is the user's",
  })
  .refine(({ conversation, session }) => !conversation || !session || conversation === session, {
    error: "conversation and session are the same thing; give one of them",
  });
export type Dispatch = z.infer<typeof Dispatch>;

export interface Asked {
  readonly prompt: string;
  readonly history: readonly ChatMessage[];
  readonly conversation: string | undefined;
  readonly cancelOnDisconnect: boolean;
  readonly replayTurnLimit: number | undefined;
  readonly agent: string | undefined;
  /** The settings of a new conversation's session; unattended by default. */
  readonly spec: Omit<SessionSpec, "agent">;
}

export function toAsked(dispatch: Dispatch): Asked {
  const {
    prompt: given,
    messages = [],
    conversation,
    session,
    cancelOnDisconnect = true,
    replayTurnLimit,
    agent,
    ...spec
  } = dispatch;
  const prompt = given ?? messages.at(-1)?.content ?? "";
  const history = given === undefined ? messages.slice(0, -1) : messages;
  const system = history.flatMap(({ role, content }) => (role === "system" ? [content] : []));
  const instructions = [...(spec.instructions === undefined ? [] : [spec.instructions]), ...system];
  return {
    prompt,
    history: history.filter(({ role }) => role !== "system"),
    conversation: conversation ?? session,
    cancelOnDisconnect,
    replayTurnLimit,
    agent,
    spec: {
      unattended: true,
      ...spec,
      ...(instructions.length > 0 && { instructions: instructions.join("\n\n") }),
    },
  };
}

/**
 * The maximum count of earlier turns that an agent remembers. After more turns the agent starts again, and gets this
 * many of the newest turns with the prompt.
 */
export const REPLAY_TURN_LIMIT = 20;

export interface ChatMessage {
  readonly role: "user" | "assistant" | "system";
  readonly content: string;
}

/** A prompt and its answer; a failed turn has no answer. */
export interface ChatTurn {
  readonly user?: string;
  readonly assistant?: string;
}

/** Groups messages into turns. Each message of the user starts one; system messages are left out. */
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

/** The newest turns as a JSON part, so that no agent takes them for the prompt. */
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

/** The earlier turns in a message; undefined if there are none. */
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

export interface NdjsonCursor {
  /** The reader gets the events after this sequence. */
  readonly after: number;
  readonly seen?: NonNullable<NdjsonView["seen"]>;
}

/** `N`: the reader saw all of event N; `N.2`: it saw the first two frames. */
export function parseLastEventId(text: string): NdjsonCursor {
  const [, sequence, frames] = /^(\d{1,15})(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  if (sequence === undefined || (frames !== undefined && Number(sequence) === 0))
    throw new SluiceError(
      "invalid_cursor",
      `Last-Event-ID: expected the id of an event, got ${JSON.stringify(text.slice(0, 80))}.`,
    );
  if (frames === undefined) return { after: Number(sequence) };
  return { after: Number(sequence) - 1, seen: { sequence: Number(sequence), frames: Number(frames) } };
}
