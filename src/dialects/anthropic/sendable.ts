import { z } from "zod";
import { MessageBlock, ResultBlock, TextBlock } from "./content-blocks.ts";
import { refuse, unsupported } from "./resources/refusal.ts";

const MAX_EVENTS = 1000;
const MAX_BLOCKS = 1000;
const MAX_DENY_MESSAGE = 10_000;

const thread = { session_thread_id: z.string().nullish() };
const result = { content: z.array(ResultBlock).max(MAX_BLOCKS).nullish(), is_error: z.boolean().nullish() };

const UserMessage = z.looseObject({
  type: z.literal("user.message"),
  content: z.array(MessageBlock).min(1).max(MAX_BLOCKS),
});
const Interrupt = z.looseObject({ type: z.literal("user.interrupt"), ...thread });
const Confirmation = z
  .looseObject({
    type: z.literal("user.tool_confirmation"),
    tool_use_id: z.string(),
    result: z.enum(["allow", "deny"]),
    deny_message: z.string().max(MAX_DENY_MESSAGE).nullish(),
    ...thread,
  })
  .refine(({ result, deny_message }) => result === "deny" || !deny_message, {
    path: ["deny_message"],
    error: 'only a result of "deny" has one',
  });
const CustomResult = z.looseObject({
  type: z.literal("user.custom_tool_result"),
  custom_tool_use_id: z.string(),
  ...result,
  ...thread,
});
const ToolResult = z.looseObject({
  type: z.literal("user.tool_result"),
  tool_use_id: z.string(),
  ...result,
  ...thread,
});
const SystemMessage = z.looseObject({
  type: z.literal("system.message"),
  content: z.array(TextBlock).min(1).max(MAX_BLOCKS),
});

export type UserMessage = z.infer<typeof UserMessage>;
export type Interrupt = z.infer<typeof Interrupt>;
export type Confirmation = z.infer<typeof Confirmation>;
export type CustomResult = z.infer<typeof CustomResult>;
export type ToolResult = z.infer<typeof ToolResult>;
export type SystemMessage = z.infer<typeof SystemMessage>;

/** The types that only an agent or a session says: sent by a client they are refused by name. */
const Sendable = z.discriminatedUnion(
  "type",
  [UserMessage, Interrupt, Confirmation, CustomResult, ToolResult, SystemMessage],
  { error: toUnknown },
);
export type Sendable = z.infer<typeof Sendable>;

export const SendEvents = z.object({ events: z.array(Sendable).min(1).max(MAX_EVENTS) });
export type SendEvents = z.infer<typeof SendEvents>;

export const InitialEvents = z
  .array(z.discriminatedUnion("type", [UserMessage], { error: toUnknown }), {
    error: "expected a list of events",
  })
  .max(50);

/** An event, and the system message that accompanies it. */
export interface Accompanied {
  readonly event: Exclude<Sendable, SystemMessage>;
  readonly system?: SystemMessage;
}

/** A batch holds together, or nothing of it is taken. */
export function toAccompanied(events: readonly Sendable[]): Accompanied[] {
  const batch: Accompanied[] = [];
  for (const [index, event] of events.entries()) {
    if (event.type !== "system.message") {
      batch.push({ event });
      continue;
    }
    const before = batch.at(-1);
    if (!before || !ACCOMPANIED.has(before.event.type) || index !== events.length - 1) throw misplaced(index);
    batch[batch.length - 1] = { ...before, system: event };
  }
  return batch;
}

const ACCOMPANIED: ReadonlySet<string> = new Set([
  "user.message",
  "user.tool_result",
  "user.custom_tool_result",
]);

function misplaced(index: number): Error {
  return refuse(
    `events.${index}: a system.message has to be the last event of its request, the only one, and directly behind a user.message, user.tool_result or user.custom_tool_result.`,
  );
}

function toUnknown({ input }: { input?: unknown }): string {
  const type = (input as { type?: unknown } | undefined)?.type;
  if (type === "user.define_outcome") return unsupported("outcomes are").message;
  return `${JSON.stringify(type ?? null)} is no event that can be sent; expected user.message, user.interrupt, user.tool_confirmation, user.custom_tool_result, user.tool_result or system.message`;
}
