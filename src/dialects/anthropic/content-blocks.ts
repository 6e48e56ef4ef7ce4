import { z } from "zod";

/** The blocks that clients send. Keys that nobody knows are kept and echoed: SDKs are older and newer than this. */

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

export const ImageBlock = z.looseObject({
  type: z.literal("image"),
  source: z.discriminatedUnion("type", [base64, url, file]),
});
export const DocumentBlock = z.looseObject({
  type: z.literal("document"),
  source: z.discriminatedUnion("type", [base64, plain, url, file]),
  title: z.string().nullish(),
  context: z.string().nullish(),
});
export const RedactedBlock = z.looseObject({ type: z.literal("redacted") });
export const SearchResultBlock = z.looseObject({
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
