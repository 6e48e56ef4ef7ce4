import { extname } from "node:path";
import { type ContentPart, storedImagePath } from "../../contract/index.ts";
import type { HarnessCommand } from "../../harness/port.ts";
import type { SandboxFiles } from "../../sandbox/port.ts";
import { messageOf } from "../failure.ts";
import type { Logger } from "../deps.ts";
import { toItemId } from "../turn/turn-start.ts";

/** The files that images are stored in, and the logger for failures. */
interface ImageStore {
  readonly files: SandboxFiles;
  readonly logger: Logger;
}

const LARGEST_IMAGE = 20 * 1024 * 1024;

const MIMES: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};

/** The command with images as bytes. Images that came as bytes are stored as files; an unreadable file stays a path. */
export async function inlineImages(
  { files, logger }: ImageStore,
  command: HarnessCommand,
): Promise<HarnessCommand> {
  if (command.type !== "prompt" && command.type !== "steer") return command;
  await storeImages({ files, logger }, { item_id: toItemId(command.inputId), content: command.content });
  return { ...command, content: await inlineContent(files, command.content) };
}

/**
 * Stores images that came as bytes: plain transcripts show their path. The log has the bytes already, so a failed
 * write, as on a full disk, loses nothing.
 */
export async function storeImages(
  { files, logger }: ImageStore,
  { item_id: itemId, content }: { readonly item_id: string; readonly content: readonly ContentPart[] },
): Promise<void> {
  for (const [index, part] of content.entries()) {
    const path = storedImagePath(itemId, index, part);
    if (path === undefined || part.type !== "image") continue;
    const comma = part.path.indexOf(",");
    const isBase64 = part.path.slice(0, comma).endsWith(";base64");
    const bytes = Buffer.from(part.path.slice(comma + 1), isBase64 ? "base64" : "utf8");
    await files.write(path, bytes).catch((error: unknown) => {
      logger({ level: "warn", message: "a picture could not be stored", path, error: messageOf(error) });
    });
  }
}

export async function inlineContent(
  files: SandboxFiles,
  content: readonly ContentPart[],
): Promise<readonly ContentPart[]> {
  if (!content.some(isOnDisk)) return content;
  return Promise.all(content.map((part) => (isOnDisk(part) ? inline(files, part) : part)));
}

type ImagePart = Extract<ContentPart, { type: "image" }>;

function isOnDisk(part: ContentPart): part is ImagePart {
  return part.type === "image" && !/^(data|https?):/.test(part.path);
}

async function inline(files: SandboxFiles, part: ImagePart): Promise<ContentPart> {
  const mime = part.mime ?? MIMES[extname(part.path).toLowerCase()] ?? "image/png";
  const stat = await files.stat(part.path).catch(() => undefined);
  if (stat?.entryType !== "file" || stat.size > LARGEST_IMAGE) return part;
  const bytes = await files.read(part.path).then(Buffer.from, () => undefined);
  if (bytes === undefined) return part;
  return { type: "image", path: `data:${mime};base64,${bytes.toString("base64")}`, mime };
}
