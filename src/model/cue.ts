import { parseScript } from "../scripted-agent/script.ts";
import type { Step } from "../scripted-agent/step.ts";
import { isAside, roundOf } from "./answer.ts";
import type { Entry } from "./ask.ts";
import { toCallSteps } from "./tools/toolbox.ts";

/** The task of an answer: the next round of a script, or a plain prompt. */
export type Cue = ScriptCue | { readonly kind: "plain"; readonly text: string };

export interface ScriptCue {
  readonly kind: "script";
  readonly script: string;
  readonly steps: readonly Step[];
  readonly rounds: readonly Round[];
  /** The count of answered rounds. */
  readonly done: number;
  /**
   * Names of the tools that were called outside of the script since its newest round. No tool is called twice this way.
   */
  readonly asides: readonly string[];
  /** The index of the script in the history. */
  readonly at: number;
  /** The user's texts before the script. */
  readonly earlier: readonly string[];
}

/** Finds the newest cue of a history. Throws for a faulty script. */
export function findCue(history: readonly Entry[]): Cue {
  const reader = new CueReader();
  for (const [index, entry] of history.entries()) {
    if (entry.by === "user") reader.readUser(entry.texts, index);
    if (entry.by === "model") reader.readModel(entry, index);
  }
  return reader.cue;
}

/** The script that is being performed. `from`: the count of rounds that were answered before a compaction. */
interface Playing extends Pick<ScriptCue, "script" | "steps" | "rounds" | "earlier"> {
  readonly from: number;
}

class CueReader {
  readonly #texts: string[] = [];
  #playing: Playing | undefined;
  #at = 0;
  #done = 0;
  #asides: readonly string[] = [];
  #interrupted = false;
  #lastRound: string | undefined;

  get cue(): Cue {
    if (this.#playing === undefined) return { kind: "plain", text: this.#texts.at(-1) ?? "" };
    return { kind: "script", ...this.#playing, done: this.#done, asides: this.#asides, at: this.#at };
  }

  readUser(parts: readonly string[], index: number): void {
    const before = this.#playing;
    // The script's message got no answer before this message.
    const isUnanswered = before !== undefined && this.#at < index && this.#done === before.from;
    for (const part of parts) {
      if (saysInterrupted(part)) this.#interrupted = true;
      if (saysCutOff(part)) this.#done = Math.max(0, this.#done - 1);
      if (this.#resume(part, index)) continue;
      const text = toUserText(part);
      if (text === "" || saysInterrupted(text)) continue;
      const script = findScript(text);
      // A text during a script is ignored. After the script's end or an interruption it is a prompt.
      const isPrompt = this.#isOver || this.#interrupted || isUnanswered;
      if (script !== undefined) this.#play(script, { index, from: 0 });
      else if (this.#playing === before && isPrompt) this.#playing = undefined;
      this.#texts.push(text);
    }
  }

  readModel({ text, calls }: Extract<Entry, { by: "model" }>, index: number): void {
    if (this.#resume(text, index)) return;
    const ids = calls.map((call) => call.id);
    if (ids.length > 0 && ids.every(isAside)) {
      this.#asides = [...this.#asides, ...calls.map((call) => call.name)];
      return;
    }
    const round = ids.map(roundOf).find((found) => found !== undefined);
    // Some clients put each result directly after its call, which splits one answer into several.
    if (round !== undefined && round === this.#lastRound) return;
    this.#lastRound = round;
    this.#asides = [];
    this.#done += 1;
  }

  /** Continues a script from one of our own summaries. Returns false for any other text. */
  #resume(part: string, index: number): boolean {
    const progress = readProgress(part);
    if (progress === undefined) return false;
    this.#playing = undefined;
    if (progress.script !== undefined) this.#play(progress.script, { index, from: progress.done });
    return true;
  }

  #play(script: string, { index, from }: { index: number; from: number }): void {
    const steps = parseScript(script) ?? [];
    this.#playing = { script, steps, rounds: toRounds(steps), earlier: [...this.#texts], from };
    this.#at = index;
    this.#done = from;
    this.#asides = [];
    this.#interrupted = false;
    this.#lastRound = undefined;
  }

  get #isOver(): boolean {
    return this.#playing !== undefined && this.#done >= this.#playing.rounds.length;
  }
}

/** The steps of one answer; `from` is the index of the first in the script. */
export interface Round {
  readonly steps: readonly Step[];
  readonly from: number;
}

/** Splits a script into rounds, one answer each. A round ends with calls, the last one with the turn. */
function toRounds(script: readonly Step[]): Round[] {
  const rounds: Round[] = [];
  let from = 0;
  for (const [index, step] of script.entries()) {
    if (toCallSteps([step]).length === 0 && step.do !== "refuse") continue;
    rounds.push({ steps: script.slice(from, index + 1), from });
    if (step.do === "refuse") return rounds;
    from = index + 1;
  }
  return [...rounds, { steps: script.slice(from), from }];
}

/** The user's own text in a part; "" if the client itself wrote the part. */
function toUserText(part: string): string {
  const text = unquote(unwrap(part.replace(REMINDER, ""))).trim();
  const isClients = CONTEXT.test(text) || NUDGE.test(text);
  return isClients && !SCRIPT.test(text) ? "" : text;
}

/** The part of a text from its `#script` on; undefined for a text without a script. */
export function findScript(text: string): string | undefined {
  const mark = SCRIPT.exec(text);
  return mark === null ? undefined : text.slice(mark.index).replace(/<\/user_query>\s*$/, "");
}

/** Whether a client reports an interrupted turn. */
function saysInterrupted(part: string): boolean {
  return /^\s*(?:\[Request interrupted by user|<turn_aborted>)/.test(part);
}

/** Whether a client reports that the answer was cut off. The client keeps the beginning as a separate answer. */
function saysCutOff(part: string): boolean {
  return /^\s*Your response above was cut off/.test(part);
}

/** Texts by which clients themselves ask for more output. */
const NUDGE =
  /^(?:Tool loaded\.|Your response above was |\[Your previous response had no |System: Please continue|Continue if you have next steps|The previous request exceeded )/;
const SCRIPT = /^[ \t]*#script(?![\w-])/m;
const REMINDER = /<system-reminder>[\s\S]*?<\/system-reminder>/g;
/** Matches a part that is a single tagged element and nothing else. */
const CONTEXT = /^<[a-z][\w-]*[\s>][\s\S]*<\/[\w-]+>$/i;

function unwrap(text: string): string {
  return /<user_query>\s*([\s\S]*?)\s*<\/user_query>/.exec(text)?.[1] ?? text;
}

/** `opencode run` puts a prompt of several words into quotes, and a backslash before each quote in it. */
function unquote(text: string): string {
  const quoted = /^\s*"(\s*#script[\s\S]*)"\s*$/.exec(text)?.[1];
  return quoted === undefined ? text : quoted.replaceAll('\\"', '"');
}

const PROGRESS = /\[script: (?:none|(\d+) ([\w-]+))\]/;

/** The script's progress in a summary of `toSummary`, anywhere in a text. */
function readProgress(text: string): { script?: string; done: number } | undefined {
  const mark = PROGRESS.exec(text);
  if (mark === null) return undefined;
  const [, done = "0", script = ""] = mark;
  if (script === "") return { done: Number(done) };
  return { done: Number(done), script: Buffer.from(script, "base64url").toString("utf8") };
}
