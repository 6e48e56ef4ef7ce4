import { z } from "zod";

// Items and content parts are exactly those of the universal transcript schema. No field may be added.

export const TextPart = z.strictObject({ type: z.literal("text"), text: z.string() });
export const JsonPart = z.strictObject({ type: z.literal("json"), json: z.unknown() });
export const ToolCallPart = z.strictObject({
  type: z.literal("tool_call"),
  name: z.string(),
  arguments: z.string().describe("JSON-encoded arguments"),
  call_id: z.string(),
});
export const ToolResultPart = z.strictObject({
  type: z.literal("tool_result"),
  call_id: z.string(),
  output: z.string(),
});
export const FileRefPart = z.strictObject({
  type: z.literal("file_ref"),
  path: z.string(),
  action: z.enum(["read", "write", "patch"]),
  diff: z.string().optional().describe("unified diff, for patches"),
});
export const ImagePart = z.strictObject({
  type: z.literal("image"),
  path: z
    .string()
    .describe("a path in the sandbox; with extensions, a data: URL if the image was given as bytes"),
  mime: z.string().optional(),
});
export const ReasoningPart = z.strictObject({
  type: z.literal("reasoning"),
  text: z.string(),
  visibility: z.enum(["public", "private"]),
});
export const StatusPart = z.strictObject({
  type: z.literal("status"),
  label: z.string(),
  detail: z.string().optional(),
});

export const ContentPart = z.discriminatedUnion("type", [
  TextPart,
  JsonPart,
  ToolCallPart,
  ToolResultPart,
  FileRefPart,
  ImagePart,
  ReasoningPart,
  StatusPart,
]);
export type ContentPart = z.infer<typeof ContentPart>;

export const ItemKind = z.enum(["message", "tool_call", "tool_result", "system", "status", "unknown"]);
export type ItemKind = z.infer<typeof ItemKind>;
export const ItemRole = z.enum(["user", "assistant", "system", "tool"]);
export type ItemRole = z.infer<typeof ItemRole>;
export const ItemStatus = z.enum(["in_progress", "completed", "failed"]);
export type ItemStatus = z.infer<typeof ItemStatus>;

export const Item = z.strictObject({
  item_id: z.string(),
  native_item_id: z.string().optional(),
  parent_id: z.string().optional(),
  kind: ItemKind,
  role: ItemRole.optional(),
  status: ItemStatus,
  content: z.array(ContentPart),
});
export type Item = z.infer<typeof Item>;

const FOLDER = "/mnt/session/uploads/.images";
const DATA_URL = /^data:([^;,]*)[;,]/;
const ENDINGS: ReadonlyMap<string, string> = new Map([
  ["image/png", "png"],
  ["image/jpeg", "jpg"],
  ["image/gif", "gif"],
  ["image/webp", "webp"],
  ["image/svg+xml", "svg"],
]);

/** The in-sandbox path of an image that came as bytes, by its index in an item; undefined for any other part. */
export function storedImagePath(itemId: string, index: number, part: ContentPart): string | undefined {
  if (part.type !== "image") return undefined;
  const mime = DATA_URL.exec(part.path)?.[1];
  if (mime === undefined) return undefined;
  return `${FOLDER}/${itemId}-${index + 1}.${ENDINGS.get(mime) ?? "bin"}`;
}
