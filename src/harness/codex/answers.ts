import type { ContentPart } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import type { AskOfCodex } from "./state.ts";
import { say } from "./reading.ts";

type Permission = Extract<HarnessCommand, { type: "permission" }>;

/** The response that carries somebody's decision. */
export function permissionLine(ask: AskOfCodex, { reply, message }: Permission): string {
  // Codex reads only the decision; the words go to it as a message, and stay here for whoever reads the transcript.
  const words = message === undefined ? {} : { message };
  switch (ask.kind) {
    case "elicitation": {
      const action = reply === "reject" ? "decline" : "accept";
      const content = reply === "reject" ? null : {};
      const meta = reply === "always" ? { persist: "session" } : null;
      return respond(ask, { action, content, _meta: meta, ...words });
    }
    case "grant": {
      const permissions = reply === "reject" ? {} : ask.permissions;
      return respond(ask, { permissions, scope: reply === "always" ? "session" : "turn", ...words });
    }
    default:
      return respond(ask, { decision: DECISIONS[reply], ...words });
  }
}

export const DECISIONS = { once: "accept", always: "acceptForSession", reject: "decline" } as const;

/** The response that carries what somebody answered to a question; none is a refusal. */
export function questionLine(ask: AskOfCodex, answers: readonly (readonly string[])[] | undefined): string {
  if (ask.kind === "form") {
    if (answers === undefined) return respond(ask, { action: "decline", content: null, _meta: null });
    const values = ask.fields.map(({ name, type }, index) => [name, toValue(type, answers[index] ?? [])]);
    return respond(ask, { action: "accept", content: Object.fromEntries(values), _meta: null });
  }
  const names = ask.kind === "question" ? ask.questions : [];
  const given = (answers ?? []).flatMap((answer, index) => {
    const name = names[index];
    return name === undefined ? [] : [[name, { answers: answer }]];
  });
  return respond(ask, { answers: Object.fromEntries(given) });
}

export function toolLine(ask: AskOfCodex, content: readonly ContentPart[], isError: boolean): string {
  return respond(ask, { contentItems: content.map(toContentItem), success: !isError });
}

/** No, to whatever was asked. */
export function declineLine(ask: AskOfCodex): string {
  if (ask.kind === "tool") return toolLine(ask, [{ type: "text", text: "Nobody runs this tool now." }], true);
  if (ask.kind === "question" || ask.kind === "form") return questionLine(ask, undefined);
  return permissionLine(ask, { type: "permission", id: "", reply: "reject" });
}

function respond({ id }: AskOfCodex, result: Readonly<Record<string, unknown>>): string {
  return say({ id, result });
}

function toValue(type: string, answer: readonly string[]): unknown {
  const [first = ""] = answer;
  if (type === "array") return answer;
  if (type === "boolean") return /^(true|yes|y|1)$/i.test(first);
  const number = Number(first);
  return (type === "number" || type === "integer") && Number.isFinite(number) ? number : first;
}

function toContentItem(part: ContentPart): Readonly<Record<string, unknown>> {
  if (part.type === "image" && part.path.startsWith("data:"))
    return { type: "inputImage", imageUrl: part.path };
  const text = part.type === "text" ? part.text : JSON.stringify(part);
  return { type: "inputText", text };
}
