import type { ContentPart } from "../../contract/index.ts";
import type { MessageBlock, ResultBlock } from "./content-blocks.ts";
import type { SystemMessage } from "./sendable.ts";

/** What an agent is handed for a client's block: a part as it is, or bytes that need a place first. */
export type Handed =
  | { readonly kind: "part"; readonly part: ContentPart; readonly about?: string }
  /** `about` is what the client says of a document: its title, and where it comes from. */
  | { readonly kind: "image" | "document"; readonly source: ByteSource; readonly about?: string };

export type ByteSource =
  | { readonly type: "file"; readonly fileId: string }
  | { readonly type: "base64"; readonly mediaType: string; readonly data: string }
  | { readonly type: "text"; readonly data: string };

export function toHanded(block: MessageBlock | ResultBlock): Handed | undefined {
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

export function toSystemWords({ content }: SystemMessage): string {
  return content.map(({ text }) => text).join("\n");
}

function text(words: string): Handed {
  return { kind: "part", part: { type: "text", text: words } };
}
