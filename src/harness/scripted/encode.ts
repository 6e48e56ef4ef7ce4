import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import type { AgentCommand, AgentReplay } from "../../scripted-agent/protocol.ts";
import { partText } from "../content-part.ts";
import { isRecord, parseObject } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import { toPermission } from "../recording.ts";
import { own } from "../transcript.ts";
import type { ScriptedState } from "./state.ts";

/** The line that carries a command to the agent; none for an answer to a closed ask. */
export function encode(state: ScriptedState, command: HarnessCommand): readonly string[] | undefined {
  // A script runs to its end. A later message waits for its own turn.
  if (command.type === "steer") return undefined;
  const line = toAgentCommand(state, command);
  return line === undefined ? [] : [JSON.stringify(line)];
}

function toAgentCommand(
  state: ScriptedState,
  command: Exclude<HarnessCommand, { type: "steer" }>,
): AgentCommand | undefined {
  switch (command.type) {
    case "prompt":
      return toPrompt(command.inputId, command.content);
    case "interrupt":
    case "retry":
      return { type: command.type };
    case "permission": {
      const id = own(state.asks, command.id);
      if (id === undefined) return undefined;
      const { reply, message } = command;
      return { type: "permission", id, reply, ...(message === undefined ? {} : { message }) };
    }
    case "question": {
      const id = own(state.asks, command.id);
      if (id === undefined) return undefined;
      const { answers, message } = command;
      if (answers === undefined)
        return { type: "answer", id, rejected: true, ...(message === undefined ? {} : { message }) };
      return { type: "answer", id, answers: answers.map((answer) => answer.slice()) };
    }
    case "tool": {
      const id = own(state.asks, command.id);
      if (id === undefined) return undefined;
      const output = command.content.map(toText).join("\n");
      return { type: "tool_result", id, output, failed: command.isError };
    }
  }
}

function toPrompt(id: string, content: readonly ContentPart[]): AgentCommand {
  const replay = content.map(toReplay).find((found) => found !== undefined);
  const text = content
    .filter((part) => !isAttachment(part) && !toReplay(part))
    .map(toText)
    .join("\n");
  const attachments = content.filter(isAttachment).map(toText);
  return {
    type: "prompt",
    id,
    text,
    ...(attachments.length === 0 ? {} : { attachments }),
    ...(replay && { replay }),
  };
}

/** Earlier turns that a client sends along. */
function toReplay(part: ContentPart): AgentReplay | undefined {
  const isReplay = part.type === "json" && isRecord(part.json) && isTurns(part.json["earlier_conversation"]);
  return isReplay ? (part.json as AgentReplay) : undefined;
}

function isTurns(value: unknown): boolean {
  return Array.isArray(value) && value.every(isRecord);
}

function isAttachment(part: ContentPart): boolean {
  return part.type === "file_ref" || part.type === "image";
}

/** A part as text, the only form that the agent reads. */
function toText(part: ContentPart): string {
  if (part.type === "file_ref") return `[file ${part.path}]`;
  return part.type === "image" ? `[image ${part.path}]` : partText(part);
}

/** The command of a line on stdin: the inverse of `encode`. */
export function toCommand(state: ScriptedState, line: SpoolLine): HarnessCommand | undefined {
  const said = parseObject(line);
  if (!isRecord(said)) return undefined;
  const { type } = said;
  if (type === "interrupt" || type === "retry") return { type };
  if (type === "prompt") return fromPrompt(said);
  const id = Object.entries(state.asks).find(([, native]) => native === said["id"])?.[0];
  if (id === undefined) return undefined;
  if (type === "permission") return toPermission(id, said);
  if (type === "answer") {
    const message = typeof said["message"] === "string" ? { message: said["message"] } : {};
    const answers = said["rejected"] === true ? message : { answers: said["answers"] as string[][] };
    return { type: "question", id, ...answers };
  }
  if (type !== "tool_result") return undefined;
  const content: ContentPart[] = [{ type: "text", text: String(said["output"]) }];
  return { type: "tool", id, content, isError: said["failed"] === true };
}

function fromPrompt({ id, text, attachments, replay }: Record<string, unknown>): HarnessCommand {
  const files = Array.isArray(attachments) ? attachments.map(String) : [];
  const content: ContentPart[] = [
    { type: "text", text: String(text) },
    ...files.map((path): ContentPart => ({ type: "file_ref", path, action: "read" })),
    ...(replay === undefined ? [] : [{ type: "json" as const, json: replay }]),
  ];
  return { type: "prompt", inputId: String(id), content };
}
