import { z } from "zod";
import { type ContentPart, isRecord, SessionSpec, ToolSettings } from "../../contract/index.ts";

// A client's request for a run. Loose: later protocol versions may add fields.

const Part = z.looseObject({ type: z.string() });

export const InputMessage = z.looseObject({
  id: z.string().optional(),
  role: z.string(),
  content: z.union([z.string(), z.array(Part), z.null()]).optional(),
  toolCallId: z.string().optional(),
  error: z.unknown().optional(),
  metadata: z.unknown().optional(),
});
export type InputMessage = z.infer<typeof InputMessage>;

export const ResumeEntry = z.looseObject({
  interruptId: z.string().min(1),
  status: z.enum(["resolved", "cancelled"]),
  payload: z.unknown().optional(),
});
export type ResumeEntry = z.infer<typeof ResumeEntry>;

const InputTool = z.looseObject({
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: z.unknown().optional(),
});

/** Run ids appear in URLs, headers and frames. */
export const RunId = z
  .string()
  .min(1)
  .max(256)
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused here
  .regex(/^[^\u0000-\u001f\u007f\p{Cs}]+$/u, "a run id has no control characters and no unpaired surrogates");

export const RunInput = z.looseObject({
  threadId: z.string().min(1),
  runId: RunId,
  protocolVersion: z.string().nullish(),
  parentRunId: z.string().nullish(),
  state: z.unknown().optional(),
  messages: z.array(InputMessage).default([]),
  tools: z.array(InputTool).nullish(),
  context: z.array(z.looseObject({ description: z.string().optional(), value: z.unknown() })).nullish(),
  forwardedProps: z.unknown().optional(),
  resume: z.array(ResumeEntry).nullish(),
});
export type RunInput = z.infer<typeof RunInput>;

/** `forwardedProps.sluice`: settings of the session that a first run creates. */
const SessionSettings = SessionSpec.omit({ agent: true, fork: true }).partial();

export const ForwardedProps = z.looseObject({
  /** The agent's own id of the conversation to continue. */
  sessionId: z.string().min(1).optional(),
  sluice: SessionSettings.optional(),
});
export type ForwardedProps = z.infer<typeof ForwardedProps>;

const CustomTools = ToolSettings.shape.custom.unwrap();

/** The client's tools as the session's custom tools; undefined if there are none. */
export function toCustomTools({ tools }: RunInput): z.infer<typeof CustomTools> | undefined {
  if (!tools || tools.length === 0) return undefined;
  return CustomTools.parse(
    tools.map(({ name, description, parameters }) => ({
      name,
      description: description ?? "",
      inputSchema: parameters ?? { type: "object" },
    })),
  );
}

/** A part of a message that the agent gets as a file. */
export interface Attached {
  readonly type: "attached";
  readonly data: string;
  readonly mime: string;
}

/** The newest message, if it is the user's. The session's log has the messages before it. */
export function newestPrompt({ messages }: RunInput): InputMessage | undefined {
  const last = messages.findLast(({ role }) => role !== "activity" && role !== "reasoning");
  return last?.role === "user" ? last : undefined;
}

/** The system and developer messages: instructions for a new session. */
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
  const added =
    around.length === 0
      ? []
      : [{ type: "text", text: `<context>\n${around.join("\n")}\n</context>` } as const];
  return [...parts.flatMap(toPart), ...added];
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
