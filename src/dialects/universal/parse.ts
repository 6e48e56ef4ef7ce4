import type { Attachment, ContentPart, SendMessage } from "../../contract/index.ts";

/** A message in the universal dialect as the content of a user's item. */
export function toContent({ message, attachments = [] }: SendMessage): ContentPart[] {
  return [{ type: "text", text: message }, ...attachments.map(fromAttachment)];
}

function fromAttachment({ path, mime }: Attachment): ContentPart {
  if (mime?.startsWith("image/")) return { type: "image", path, mime };
  return { type: "file_ref", path, action: "read" };
}
