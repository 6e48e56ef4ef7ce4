import type { ContentPart, EventDraft } from "../../contract/index.ts";
import type { Harness } from "../../harness/port.ts";
import type { Submission } from "./submission.ts";
import type { SessionWriter } from "../fold/writer.ts";

/** Instructions become a part of the message for an agent that takes none at its start. */
export function inlineInstructions(harness: Harness, submission: Submission): Submission {
  if (submission.kind !== "message" || harness.takesInstructions === true) return submission;
  const { instructions, ...message } = submission;
  if (instructions === undefined) return submission;
  return { ...message, content: [...message.content, toSystemPart(instructions)] };
}

/** Instructions as text of a message. */
export function toSystemPart(words: string): ContentPart {
  return { type: "text", text: `<system-message>\n${words}\n</system-message>` };
}

/** Whether a part of a message is a result of `toSystemPart`. */
export function isSystemPart(part: ContentPart): boolean {
  return part.type === "text" && /^<system-message>\n[^]*\n<\/system-message>$/.test(part.text);
}

/** The instructions of the next input, appended to those of the session. Pure. */
export function instructionChange({ fold, spec }: Pick<SessionWriter, "fold" | "spec">): EventDraft[] {
  const [next] = fold.inbox;
  if (next?.instructions === undefined) return [];
  const known = spec.instructions === undefined ? [] : [spec.instructions];
  const instructions = [...known, next.instructions].join("\n\n");
  const data = { settings: { instructions }, input_id: next.inputId };
  return [{ type: "session.updated", source: "daemon", data }];
}
