import type { ContentPart } from "./items.ts";

const FOLDER = "/mnt/session/uploads/.images";
const DATA_URL = /^data:([^;,]*)[;,]/;
const ENDINGS: ReadonlyMap<string, string> = new Map([
  ["image/png", "png"],
  ["image/jpeg", "jpg"],
  ["image/gif", "gif"],
  ["image/webp", "webp"],
  ["image/svg+xml", "svg"],
]);

/** The sandbox's file of an image that came as bytes, by its place in an item; undefined of every other part. Pure. */
export function storedImagePath(itemId: string, index: number, part: ContentPart): string | undefined {
  if (part.type !== "image") return undefined;
  const mime = DATA_URL.exec(part.path)?.[1];
  if (mime === undefined) return undefined;
  return `${FOLDER}/${itemId}-${index + 1}.${ENDINGS.get(mime) ?? "bin"}`;
}
