import type { ContentPart } from "../../contract/index.ts";
import { type ByteSource, type Handed, toHanded } from "../../dialects/anthropic/handing.ts";
import type { MessageBlock, ResultBlock } from "../../dialects/anthropic/content-blocks.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { UPLOADS } from "../../dialects/anthropic/resources/session-resource.ts";
import { readContent } from "./files.ts";
import { digestOf } from "./resend.ts";
import type { AnthropicServices } from "./services.ts";

interface Bytes {
  readonly bytes: Uint8Array;
  readonly mimeType: string;
  /** Below the uploads; the same bytes always get the same. */
  readonly path: string;
}

/** A client's blocks as the agent gets them: images by their bytes, documents as files that it can read. */
export async function toParts(
  services: AnthropicServices,
  owner: string,
  {
    session,
    blocks,
    inline,
  }: { session: string; blocks: readonly (MessageBlock | ResultBlock)[]; inline?: boolean },
): Promise<ContentPart[]> {
  const parts: ContentPart[] = [];
  for (const block of blocks) {
    const handed = toHanded(block);
    if (!handed) continue;
    if (handed.about !== undefined) parts.push({ type: "text", text: handed.about });
    if (handed.kind === "part") parts.push(handed.part);
    else parts.push(await toPart(services, owner, { session, handed, inline: inline === true }));
  }
  return parts;
}

/** Everything that a batch names has to be there before anything of it is taken. */
async function toPart(
  services: AnthropicServices,
  owner: string,
  {
    session,
    handed,
    inline,
  }: { session: string; handed: Exclude<Handed, { kind: "part" }>; inline: boolean },
): Promise<ContentPart> {
  const { kind, source } = handed;
  if (inline && source.type === "text") return { type: "text", text: source.data };
  const { bytes, mimeType, path } = await readBytes(services, owner, source);
  if (kind === "image") {
    if (!mimeType.startsWith("image/")) throw refuse(`image: the file is ${mimeType}, which is no image.`);
    const data = Buffer.from(bytes).toString("base64");
    return { type: "image", path: `data:${mimeType};base64,${data}`, mime: mimeType };
  }
  const place = `${UPLOADS}/${path}`;
  await (await services.engine.files(session)).write(place, bytes);
  return { type: "file_ref", path: place, action: "read" };
}

async function readBytes(
  { shelves, catalog }: AnthropicServices,
  owner: string,
  source: ByteSource,
): Promise<Bytes> {
  if (source.type === "text") {
    const path = `document-${digestOf(source.data).slice(0, 12)}.txt`;
    return { bytes: Buffer.from(source.data), mimeType: "text/plain", path };
  }
  if (source.type === "base64") {
    const extension =
      source.mediaType
        .split("/")
        .at(-1)
        ?.replaceAll(/[^\w]+/g, "-") ?? "bin";
    const path = `document-${digestOf(source.data).slice(0, 12)}.${extension}`;
    return { bytes: Buffer.from(source.data, "base64"), mimeType: source.mediaType, path };
  }
  const file = await shelves.files.get(owner, source.fileId);
  const content = await readContent(catalog, file.body);
  const bytes = new Uint8Array(await new Response(content.stream()).arrayBuffer());
  return { bytes, mimeType: file.body.mime_type, path: `${file.id}/${file.body.filename}` };
}
