import type { ContentPart } from "../../contract/index.ts";
import type { InputMessage, RunInput } from "./input.ts";
import { isRecord } from "./payload.ts";

/** Something of a message that an agent gets as a file. */
export interface Attached {
  readonly type: "attached";
  readonly data: string;
  readonly mime: string;
}

/** The newest message, where it is a user's: the history before it is the session's own. */
export function newestPrompt({ messages }: RunInput): InputMessage | undefined {
  const last = messages.findLast(({ role }) => role !== "activity" && role !== "reasoning");
  return last?.role === "user" ? last : undefined;
}

/** What the application says beside the conversation: its instructions to the agent of a new session. */
export function toInstructions({ messages }: RunInput): string | undefined {
  const said = messages.filter(({ role }) => role === "system" || role === "developer");
  const words = said.map(textOf).filter((text) => text !== "");
  return words.length === 0 ? undefined : words.join("\n\n");
}

export function toPrompt(message: InputMessage, context: RunInput["context"]): (ContentPart | Attached)[] {
  const { content } = message;
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  const around = (context ?? []).map(({ description, value }) => {
    const words = typeof value === "string" ? value : JSON.stringify(value);
    return description ? `${description}: ${words}` : words;
  });
  const told =
    around.length === 0
      ? []
      : [{ type: "text", text: `<context>\n${around.join("\n")}\n</context>` } as const];
  return [...parts.flatMap(toPart), ...told];
}

export function textOf({ content }: InputMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).flatMap((part) => (part.type === "text" ? [wordsOf(part)] : [])).join("\n");
}

function toPart(part: Record<string, unknown> & { type: string }): (ContentPart | Attached)[] {
  if (part.type === "text") return [{ type: "text", text: wordsOf(part) }];
  const source = isRecord(part["source"]) ? part["source"] : part;
  const mime = [source["mimeType"], part["mimeType"]].find((value) => typeof value === "string") as
    | string
    | undefined;
  const url = source["type"] === "url" ? source["value"] : source["url"];
  if (typeof url === "string") return [toLink(part.type, url, mime)];
  const data = source["type"] === "data" ? source["value"] : source["data"];
  if (typeof data !== "string") return [];
  const isImage = part.type === "image" || mime?.startsWith("image/");
  if (isImage)
    return [{ type: "image", path: `data:${mime ?? "image/png"};base64,${data}`, mime: mime ?? "image/png" }];
  return [{ type: "attached", data, mime: mime ?? "application/octet-stream" }];
}

function toLink(type: string, url: string, mime: string | undefined): ContentPart {
  if (type !== "image") return { type: "file_ref", path: url, action: "read" };
  return { type: "image", path: url, ...(mime === undefined ? {} : { mime }) };
}

function wordsOf(part: Record<string, unknown>): string {
  const text = part["text"] ?? part["content"];
  return typeof text === "string" ? text : "";
}
