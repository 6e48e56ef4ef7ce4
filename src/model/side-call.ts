import { type Ask, type Entry, toHistory } from "./ask.ts";
import { type Cue, findCue, findScript } from "./cue.ts";
import { asObject, asText } from "./json.ts";

/** The answer to a request outside of the conversation: a title, a summary, a JSON verdict. */
export type SideAnswer =
  | { readonly say: string }
  | { readonly tool: string; readonly input: Readonly<Record<string, unknown>> };

const TITLE = "Scripted session";

/** Answers a request outside of the conversation; undefined for a request of the conversation itself. */
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

/** A small value that fits a JSON schema. `text` fills its strings. */
export function toSample(schema: unknown, text = "scripted"): unknown {
  const { enum: choices, const: fixed, type, properties, anyOf, oneOf } = asObject(schema);
  if (fixed !== undefined) return fixed;
  // Gemini CLI asks after each turn who speaks next. If the answer is not "user", it never ends the turn.
  if (Array.isArray(choices)) return choices.includes("user") ? "user" : (choices[0] as unknown);
  for (const variants of [anyOf, oneOf]) {
    if (Array.isArray(variants) && variants.length > 0) return toSample(variants[0], text);
  }
  const named = asText(Array.isArray(type) ? type[0] : type).toLowerCase();
  if (named === "object" || properties !== undefined) {
    const entries = Object.entries(asObject(properties)).map(([key, value]) => [key, toSample(value, text)]);
    return Object.fromEntries(entries);
  }
  if (named === "array") return [];
  if (named === "number" || named === "integer") return 1;
  if (named === "boolean") return false;
  return named === "null" ? null : text;
}

/**
 * The summary of a history. It contains an unfinished script, so that the script can go on. The script is encoded, so
 * that it is not taken for a prompt.
 */
function toSummary(cue: Cue): string {
  const isOver = cue.kind === "plain" || cue.done >= cue.rounds.length;
  const mark = isOver ? "[script: none]" : `[script: ${cue.done} ${toCode(cue.script)}]`;
  return `A scripted conversation so far. ${mark} ${PADDING}`;
}

/** Grok Build takes a summary of less than 500 characters for a failure. */
const PADDING = "There is nothing more to remember of it than that. ".repeat(12).trim();

function toCode(script: string): string {
  return Buffer.from(script, "utf8").toString("base64url");
}

/** Parses the transcript of a conversation that OpenCode puts into its request for a summary. */
function parseTranscript(text: string): Entry[] | undefined {
  const written = /<conversation>\n([\s\S]*)\n<\/conversation>/.exec(text)?.[1];
  if (written === undefined) return undefined;
  const [, ...pieces] = written.split(SPEAKER);
  const entries: Entry[] = [];
  for (let at = 0; at + 1 < pieces.length; at += 2)
    entries.push(toEntry(pieces[at] ?? "", pieces[at + 1] ?? ""));
  return entries;
}

const SPEAKER = /^\[(User|Assistant|Assistant tool call|Assistant reasoning|Tool result|Tool error)\]: /m;

function toEntry(speaker: string, said: string): Entry {
  const text = said.trim();
  if (speaker === "User") return { by: "user", texts: [text] };
  if (speaker.startsWith("Tool")) return { by: "tool", texts: [text] };
  return { by: "model", text: speaker === "Assistant" ? text : "", calls: [] };
}
