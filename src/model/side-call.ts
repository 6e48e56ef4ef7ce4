import type { Ask } from "./ask.ts";
import { type Cue, findCue } from "./cue.ts";
import { toHistory } from "./history.ts";
import { toSample } from "./schema-sample.ts";
import { toSummary } from "./summary.ts";
import { parseTranscript } from "./transcript.ts";
import { findScript } from "./user-text.ts";

/** What a client asks besides the conversation: a title, a summary, a verdict as JSON. */
export type SideAnswer =
  | { readonly say: string }
  | { readonly tool: string; readonly input: Readonly<Record<string, unknown>> };

export const TITLE = "Scripted session";

/** undefined where the request is the conversation itself. */
export function answerSideCall(ask: Ask, cue: Cue): SideAnswer | undefined {
  const forced = ask.tools.find((tool) => tool.name === ask.forced);
  if (forced !== undefined) {
    const input = toSample(forced.schema, TITLE) as Record<string, unknown>;
    return { tool: forced.name, input };
  }
  const last = lastUserText(ask);
  if (asksForSummary(ask, last)) {
    const transcript = parseTranscript(last);
    const summary = toSummary(transcript === undefined ? cue : findCue(toHistory(transcript)));
    const tag = /<(summary|state_snapshot)>/.exec(last + ask.system)?.[1];
    return { say: tag === undefined ? summary : `<${tag}>\n${summary}\n</${tag}>` };
  }
  if (ask.tools.length > 0) return undefined;
  if (ask.schema !== undefined) return { say: JSON.stringify(toSample(ask.schema, TITLE)) };
  return TITLE_SYSTEM.test(ask.system.slice(0, 2000)) ? { say: TITLE } : undefined;
}

const SUMMARY =
  /summar\w*[^.\n]{0,100}\bconversation|conversation[^.\n]{0,100}\bsummar|context checkpoint compaction|prompt for continuing (?:our|the) conversation/i;
const SUMMARY_SYSTEM = /summariz(?:e|ing) (?:the |this |our )?conversation|state_snapshot/i;
const TITLE_SYSTEM = /title generator|generat\w* (?:a |the )?(?:\w+ ){0,3}title/i;

function asksForSummary(ask: Ask, last: string): boolean {
  if (ask.tools.length === 0 && SUMMARY_SYSTEM.test(ask.system)) return true;
  return SUMMARY.test(last) && findScript(last) === undefined;
}

function lastUserText(ask: Ask): string {
  const last = ask.entries.at(-1);
  return last?.by === "user" ? last.texts.join("\n") : "";
}
