import { z } from "zod";
import { SessionId, SessionSpec } from "../../contract/index.ts";
import type { ChatMessage } from "./conversation.ts";

const Content = z
  .union([z.string(), z.array(z.object({ type: z.literal("text"), text: z.string() }))])
  .transform((content) =>
    typeof content === "string" ? content : content.map(({ text }) => text).join("\n"),
  );

const Message = z.strictObject({ role: z.enum(["user", "assistant", "system"]), content: Content });

const { agent, ...settings } = SessionSpec.shape;

/** One turn, asked for: the words, whose conversation it is, and what runs it if that is new. */
export const Dispatch = z
  .strictObject({
    prompt: z.string().min(1).optional().describe("what to do now"),
    messages: z
      .array(Message)
      .min(1)
      .optional()
      .describe("the conversation so far; without a prompt, its last message is the prompt"),
    conversation: SessionId.optional().describe("continues it, or begins it under this id"),
    session: SessionId.optional().describe("the same as conversation"),
    cancelOnDisconnect: z.boolean().optional().describe("whether the run ends when its reader goes; true"),
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
  /** What a new conversation's session is beside its agent. Nobody is there to be asked, unless it says otherwise. */
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
