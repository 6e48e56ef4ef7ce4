import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord } from "../fields.ts";
import { parseObject } from "../line.ts";
import type { ScriptedState } from "./state.ts";

/** The command of a line on stdin: the inverse of `encode`. */
export function toCommand(state: ScriptedState, line: SpoolLine): HarnessCommand | undefined {
  const said = parseObject(line);
  if (!isRecord(said)) return undefined;
  const { type } = said;
  if (type === "interrupt" || type === "retry") return { type };
  if (type === "prompt") return toPrompt(said);
  const id = Object.entries(state.asks).find(([, native]) => native === said["id"])?.[0];
  if (id === undefined) return undefined;
  if (type === "permission") return toDecision(id, said);
  if (type === "answer") {
    const answers = said["rejected"] === true ? {} : { answers: said["answers"] as string[][] };
    return { type: "question", id, ...answers };
  }
  if (type !== "tool_result") return undefined;
  const content: ContentPart[] = [{ type: "text", text: String(said["output"]) }];
  return { type: "tool", id, content, isError: said["failed"] === true };
}

function toPrompt({ id, text, attachments, replay }: Record<string, unknown>): HarnessCommand {
  const files = Array.isArray(attachments) ? attachments.map(String) : [];
  const content: ContentPart[] = [
    { type: "text", text: String(text) },
    ...files.map((path): ContentPart => ({ type: "file_ref", path, action: "read" })),
    ...(replay === undefined ? [] : [{ type: "json" as const, json: replay }]),
  ];
  return { type: "prompt", inputId: String(id), content };
}

function toDecision(id: string, { reply, message }: Record<string, unknown>): HarnessCommand | undefined {
  if (reply !== "once" && reply !== "always" && reply !== "reject") return undefined;
  return { type: "permission", id, reply, ...(typeof message === "string" ? { message } : {}) };
}
