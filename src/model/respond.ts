import { type Part, toAnswer, toCallId, toDeltas, type ModelResponse } from "./answer.ts";
import { type Ask, type Entry, toDigest, toHistory } from "./ask.ts";
import { type Cue, findCue } from "./cue.ts";
import { type FailCounts, answerScript } from "./script-answer.ts";
import { answerSideCall, type SideAnswer } from "./side-call.ts";

/** The model's answer: a pure function of the request, except that scripted failures are counted. */
export function respond(ask: Ask, counts: FailCounts): ModelResponse {
  const history = toHistory(ask.entries);
  const id = toDigest(history, String(ask.tools.length));
  let cue: Cue;
  try {
    cue = findCue(history);
  } catch (error) {
    return { id, failure: "terminal", message: error instanceof Error ? error.message : String(error) };
  }
  const side = answerSideCall(ask, cue);
  if (side !== undefined) return toAnswer(ask, { id, parts: toSideParts(side, id) });
  if (cue.kind === "plain") return toAnswer(ask, { id, parts: toPlainParts(cue.text, history) });
  return answerScript(ask, cue, { id, history, counts });
}

function toSideParts(side: SideAnswer, id: string): Part[] {
  if ("say" in side) return [{ do: "say", deltas: toDeltas(side.say) }];
  return [{ do: "call", call: { id: toCallId(id, 0), name: side.tool, input: side.input } }];
}

const LONGEST_QUOTE = 10_000;

function toPlainParts(prompt: string, history: readonly Entry[]): Part[] {
  if (history.at(-1)?.by === "tool") return [{ do: "say", deltas: toDeltas("Done.") }];
  const quote = prompt.length > LONGEST_QUOTE ? `${prompt.slice(0, LONGEST_QUOTE)}…` : prompt;
  const answer = `You said: “${quote}” There is no model behind me; a line that starts with #script says what I do.`;
  return [
    { do: "think", deltas: toDeltas("A prompt without a script: I will quote it.") },
    { do: "say", deltas: toDeltas(answer) },
  ];
}
