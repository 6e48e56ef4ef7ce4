import { splitAnswers } from "../answers.ts";
import type { ContentPart } from "../../contract/index.ts";
import { asText, defined, isRecord, toFields, toRecords } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import type { Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { type AskOfCodex, toLine } from "./state.ts";

type Permission = Extract<HarnessCommand, { type: "permission" }>;

export function permissionLine(ask: AskOfCodex, { reply, message }: Permission): string {
  // Codex reads only the decision. The message is for readers of the transcript.
  switch (ask.kind) {
    case "elicitation": {
      const action = reply === "reject" ? "decline" : "accept";
      const content = reply === "reject" ? null : {};
      const meta = reply === "always" ? { persist: "session" } : null;
      return respond(ask, { action, content, _meta: meta, message });
    }
    case "grant": {
      const permissions = reply === "reject" ? {} : ask.permissions;
      return respond(ask, { permissions, scope: reply === "always" ? "session" : "turn", message });
    }
    default:
      return respond(ask, { decision: DECISIONS[reply], message });
  }
}

const DECISIONS = { once: "accept", always: "acceptForSession", reject: "decline" } as const;

/** The response to a question. No answer is a refusal. */
export function questionLine(ask: AskOfCodex, answers: readonly (readonly string[])[] | undefined): string {
  if (ask.kind === "form") {
    if (answers === undefined) return respond(ask, { action: "decline", content: null, _meta: null });
    const each = splitAnswers(answers, ask.fields.length);
    const values = ask.fields.map(({ name, type }, index) => [name, toValue(type, each[index] ?? [])]);
    return respond(ask, { action: "accept", content: Object.fromEntries(values), _meta: null });
  }
  const names = ask.kind === "question" ? ask.questions : [];
  const given = splitAnswers(answers ?? [], names.length).flatMap((answer, index) => {
    const name = names[index];
    return name === undefined ? [] : [[name, { answers: answer }]];
  });
  return respond(ask, { answers: Object.fromEntries(given) });
}

export function toolLine(ask: AskOfCodex, content: readonly ContentPart[], isError: boolean): string {
  return respond(ask, { contentItems: content.map(toContentItem), success: !isError });
}

export function declineLine(ask: AskOfCodex): string {
  if (ask.kind === "tool") return toolLine(ask, [{ type: "text", text: "Nobody runs this tool now." }], true);
  if (ask.kind === "question" || ask.kind === "form") return questionLine(ask, undefined);
  return permissionLine(ask, { type: "permission", id: "", reply: "reject" });
}

function respond({ id }: AskOfCodex, result: Params): string {
  return toLine({ id, result });
}

function toValue(type: string, answer: readonly string[]): unknown {
  const [first = ""] = answer;
  if (type === "array") return answer;
  if (type === "boolean") return /^(true|yes|y|1)$/i.test(first);
  const number = Number(first);
  return (type === "number" || type === "integer") && Number.isFinite(number) ? number : first;
}

function toContentItem(part: ContentPart): Params {
  if (part.type === "image" && part.path.startsWith("data:"))
    return { type: "inputImage", imageUrl: part.path };
  const text = part.type === "text" ? part.text : JSON.stringify(part);
  return { type: "inputText", text };
}

/** The command of a response: the inverse of the lines above. */
export function fromAnswer(id: string, ask: AskOfCodex, result: Params): HarnessCommand {
  switch (ask.kind) {
    case "decision":
      return { type: "permission", id, reply: replyOf(result["decision"]), ...messageOf(result) };
    case "elicitation": {
      const isKept = isRecord(result["_meta"]) && result["_meta"]["persist"] != null;
      const reply = toReply({ isAccepted: result["action"] === "accept", isKept });
      return { type: "permission", id, reply, ...messageOf(result) };
    }
    case "grant": {
      const { permissions, scope } = result;
      const isEmpty = !isRecord(permissions) || Object.keys(permissions).length === 0;
      const reply = toReply({ isAccepted: !isEmpty, isKept: scope === "session" });
      return { type: "permission", id, reply, ...messageOf(result) };
    }
    case "form": {
      const content =
        result["action"] === "accept" && isRecord(result["content"]) ? result["content"] : undefined;
      if (!content) return { type: "question", id };
      return { type: "question", id, answers: ask.fields.map(({ name }) => toStrings(content[name])) };
    }
    case "question": {
      const given = toFields(result["answers"]);
      if (Object.keys(given).length === 0) return { type: "question", id };
      return { type: "question", id, answers: ask.questions.map((name) => toStrings(own(given, name))) };
    }
    case "tool": {
      const items = toRecords(result["contentItems"]);
      return { type: "tool", id, content: items.flatMap(toPart), isError: result["success"] !== true };
    }
  }
}

function toReply({ isAccepted, isKept }: { isAccepted: boolean; isKept: boolean }): Permission["reply"] {
  if (!isAccepted) return "reject";
  return isKept ? "always" : "once";
}

function replyOf(decision: unknown): "once" | "always" | "reject" {
  if (isRecord(decision)) return "always";
  if (decision === DECISIONS.always) return "always";
  return decision === DECISIONS.once ? "once" : "reject";
}

function messageOf({ message }: Params): { message?: string } {
  return defined({ message: asText(message) });
}

function toStrings(value: unknown): string[] {
  const answers = isRecord(value) ? value["answers"] : value;
  if (Array.isArray(answers)) return answers.map(String);
  return answers === undefined ? [] : [String(answers)];
}

function toPart({ text, imageUrl }: Params): ContentPart[] {
  if (typeof imageUrl === "string") return [toImage(imageUrl)];
  return typeof text === "string" ? [{ type: "text", text }] : [];
}

/** An image by its URL, with the type of a data URL. */
export function toImage(url: string): ContentPart {
  const mime = /^data:([^;,]+)/.exec(url)?.[1];
  return { type: "image", path: url, ...(mime === undefined ? {} : { mime }) };
}
