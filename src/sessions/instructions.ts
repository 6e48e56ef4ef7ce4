import type { ContentPart, EventDraft } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import type { Submission } from "./submission.ts";
import type { SessionWriter } from "./writer.ts";

/** An agent that has no privileged place for a message's instructions reads them in the conversation, where they stay. */
export function placeInstructions(harness: Harness, submission: Submission): Submission {
  if (submission.kind !== "message" || harness.takesInstructions === true) return submission;
  const { instructions, ...message } = submission;
  if (instructions === undefined) return submission;
  return { ...message, content: [...message.content, toSystemPart(instructions)] };
}

/** The system's words among others. */
export function toSystemPart(words: string): ContentPart {
  return { type: "text", text: `<system-message>\n${words}\n</system-message>` };
}

/** The instructions of the next input become the session's own, behind those that it has. Pure. */
export function instructionChange({ fold, spec }: Pick<SessionWriter, "fold" | "spec">): EventDraft[] {
  const [next] = fold.inbox;
  if (next?.instructions === undefined) return [];
  const known = spec.instructions === undefined ? [] : [spec.instructions];
  const instructions = [...known, next.instructions].join("\n\n");
  const data = { settings: { instructions }, input_id: next.inputId };
  return [{ type: "session.updated", source: "daemon", data }];
}
