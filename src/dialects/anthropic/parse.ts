import { z } from "zod";
import type { ContentPart } from "../../contract/index.ts";
import { refuse, unsupported } from "./resources/resource.ts";

// Clients' blocks and events. Unknown keys are kept and echoed: SDKs may be older or newer.

export const TextBlock = z.looseObject({ type: z.literal("text"), text: z.string() });

const base64 = z.looseObject({ type: z.literal("base64"), media_type: z.string().min(1), data: z.base64() });
const url = z.looseObject({
  type: z.literal("url"),
  url: z.url({ protocol: /^https?$/, error: "expected an http or https URL" }),
});
const file = z.looseObject({ type: z.literal("file"), file_id: z.string().min(1) });
const plain = z.looseObject({
  type: z.literal("text"),
  media_type: z.literal("text/plain"),
  data: z.string(),
});

const ImageBlock = z.looseObject({
  type: z.literal("image"),
  source: z.discriminatedUnion("type", [base64, url, file]),
});
const DocumentBlock = z.looseObject({
  type: z.literal("document"),
  source: z.discriminatedUnion("type", [base64, plain, url, file]),
  title: z.string().nullish(),
  context: z.string().nullish(),
});
const RedactedBlock = z.looseObject({ type: z.literal("redacted") });
const SearchResultBlock = z.looseObject({
  type: z.literal("search_result"),
  source: z.string(),
  title: z.string(),
  content: z.array(TextBlock),
});

export const MessageBlock = z.discriminatedUnion(
  "type",
  [TextBlock, ImageBlock, DocumentBlock, RedactedBlock],
  {
    error: ({ input }) =>
      (input as { type?: unknown } | undefined)?.type === "search_result"
        ? "a search_result belongs into the result of a tool; a message cannot have one"
        : "expected a text, image or document block",
  },
);
export type MessageBlock = z.infer<typeof MessageBlock>;

export const ResultBlock = z.discriminatedUnion(
  "type",
  [TextBlock, ImageBlock, DocumentBlock, SearchResultBlock, RedactedBlock],
  { error: "expected a text, image, document or search_result block" },
);
export type ResultBlock = z.infer<typeof ResultBlock>;

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

export type SystemMessage = z.infer<typeof SystemMessage>;

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

/** Joins a system message with the event before it; refuses the whole batch if it is misplaced. */
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

/**
 * A client's block for an agent: a part, or bytes that have to become a file first. `about` is the title and the context
 * of a document.
 */
export type AgentPart =
  | { readonly kind: "part"; readonly part: ContentPart; readonly about?: string }
  | { readonly kind: "image" | "document"; readonly source: ByteSource; readonly about?: string };

export type ByteSource =
  | { readonly type: "file"; readonly fileId: string }
  | { readonly type: "base64"; readonly mediaType: string; readonly data: string }
  | { readonly type: "text"; readonly data: string };

export function toAgentPart(block: MessageBlock | ResultBlock): AgentPart | undefined {
  switch (block.type) {
    case "text":
      return text(block.text);
    case "image": {
      const { source } = block;
      if (source.type === "url") return { kind: "part", part: { type: "image", path: source.url } };
      if (source.type === "file") return { kind: "image", source: { type: "file", fileId: source.file_id } };
      const { media_type: mediaType, data } = source;
      const part: ContentPart = { type: "image", path: `data:${mediaType};base64,${data}`, mime: mediaType };
      return { kind: "part", part };
    }
    case "document": {
      const { source } = block;
      const lines = [block.title && `Document: ${block.title}`, block.context && `Context: ${block.context}`];
      const said = lines.filter(Boolean).join("\n");
      const about = said === "" ? {} : { about: said };
      if (source.type === "url")
        return { kind: "part", part: { type: "file_ref", path: source.url, action: "read" }, ...about };
      if (source.type === "file")
        return { kind: "document", source: { type: "file", fileId: source.file_id }, ...about };
      if (source.type === "text")
        return { kind: "document", source: { type: "text", data: source.data }, ...about };
      const { media_type: mediaType, data } = source;
      return { kind: "document", source: { type: "base64", mediaType, data }, ...about };
    }
    case "search_result": {
      const found = block.content.map(({ text }) => text).join("\n");
      return text(`${block.title}\n${block.source}\n\n${found}`);
    }
    case "redacted":
      return undefined;
  }
}

export function toSystemText({ content }: SystemMessage): string {
  return content.map(({ text }) => text).join("\n");
}

function text(words: string): AgentPart {
  return { kind: "part", part: { type: "text", text: words } };
}
