import type { ContentPart } from "../../../contract/index.ts";
import {
  type AgentPart,
  type ByteSource,
  type MessageBlock,
  type ResultBlock,
  toAgentPart,
} from "../../../dialects/anthropic/parse.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import { UPLOADS } from "../../../dialects/anthropic/resources/session.ts";
import { digestOf } from "../../digest.ts";
import { readContent } from "../resources/files.ts";
import type { AnthropicServices } from "../route.ts";

interface Bytes {
  readonly bytes: Uint8Array;
  readonly mimeType: string;
  /** Relative to the folder of uploads. Equal bytes have equal paths. */
  readonly path: string;
}

/** A client's blocks for the agent: images as bytes, documents as files in the sandbox. */
export async function resolveParts(
  services: AnthropicServices,
  tenant: string,
  {
    session,
    blocks,
    inline,
  }: { session: string; blocks: readonly (MessageBlock | ResultBlock)[]; inline?: boolean },
): Promise<ContentPart[]> {
  const parts: ContentPart[] = [];
  for (const block of blocks) {
    const agentPart = toAgentPart(block);
    if (!agentPart) continue;
    if (agentPart.about !== undefined) parts.push({ type: "text", text: agentPart.about });
    if (agentPart.kind === "part") parts.push(agentPart.part);
    else parts.push(await resolvePart(services, tenant, { session, agentPart, inline: inline === true }));
  }
  return parts;
}

async function resolvePart(
  services: AnthropicServices,
  tenant: string,
  {
    session,
    agentPart,
    inline,
  }: { session: string; agentPart: Exclude<AgentPart, { kind: "part" }>; inline: boolean },
): Promise<ContentPart> {
  const { kind, source } = agentPart;
  if (inline && source.type === "text") return { type: "text", text: source.data };
  const { bytes, mimeType, path } = await readBytes(services, tenant, source);
  if (kind === "image") {
    if (!mimeType.startsWith("image/")) throw refuse(`image: the file is ${mimeType}, which is no image.`);
    const data = Buffer.from(bytes).toString("base64");
    return { type: "image", path: `data:${mimeType};base64,${data}`, mime: mimeType };
  }
  const target = `${UPLOADS}/${path}`;
  await (await services.engine.files(session)).write(target, bytes);
  return { type: "file_ref", path: target, action: "read" };
}

async function readBytes(
  { collections, catalog }: AnthropicServices,
  tenant: string,
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
  const file = await collections.files.get(tenant, source.fileId);
  const content = await readContent(catalog, file.body);
  const bytes = new Uint8Array(await new Response(content.stream()).arrayBuffer());
  return { bytes, mimeType: file.body.mime_type, path: `${file.id}/${file.body.filename}` };
}
