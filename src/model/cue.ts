import { parseScript } from "../harness/scripted/agent/script.ts";
import type { Step } from "../harness/scripted/agent/step.ts";
import type { Entry } from "./ask.ts";
import { isAside, roundOf } from "./call-id.ts";
import { type Round, toRounds } from "./rounds.ts";
import { readProgress } from "./summary.ts";
import { findScript, saysCutOff, saysInterrupted, toUserText } from "./user-text.ts";

/** What the model has to act on: a script at one of its rounds, or a plain prompt. */
export type Cue = ScriptCue | { readonly kind: "plain"; readonly text: string };

export interface ScriptCue {
  readonly kind: "script";
  readonly script: string;
  readonly steps: readonly Step[];
  readonly rounds: readonly Round[];
  /** How many rounds were answered. */
  readonly done: number;
  /** The tools that were called besides the script since its newest round; none of it is done twice. */
  readonly asides: readonly string[];
  /** Where in the history the script stands. */
  readonly at: number;
  /** The user texts before the one that drives. */
  readonly earlier: readonly string[];
}

/** Throws what is wrong with a script. */
export function findCue(history: readonly Entry[]): Cue {
  const reader = new CueReader();
  for (const [index, entry] of history.entries()) {
    if (entry.by === "user") reader.hear(entry.texts, index);
    if (entry.by === "model") reader.count(entry, index);
  }
  return reader.cue;
}

/** `from`: how many rounds were done when the history begins to tell of it. */
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

  hear(parts: readonly string[], index: number): void {
    const before = this.#playing;
    const isUnanswered = before !== undefined && this.#at < index && this.#done === before.from;
    for (const part of parts) {
      if (saysInterrupted(part)) this.#interrupted = true;
      if (saysCutOff(part)) this.#done = Math.max(0, this.#done - 1);
      if (this.#resume(part, index)) continue;
      const text = toUserText(part);
      if (text === "" || saysInterrupted(text)) continue;
      const script = findScript(text);
      if (script !== undefined) this.#play(script, { index, from: 0 });
      // A text that joins a running script steers nothing; behind its end or its interruption it is a prompt.
      else if (this.#playing === before && (this.#isOver || this.#interrupted || isUnanswered))
        this.#playing = undefined;
      this.#texts.push(text);
    }
  }

  count({ text, calls }: Extract<Entry, { by: "model" }>, index: number): void {
    if (this.#resume(text, index)) return;
    const ids = calls.map((call) => call.id);
    if (ids.length > 0 && ids.every(isAside)) {
      this.#asides = [...this.#asides, ...calls.map((call) => call.name)];
      return;
    }
    const round = ids.map(roundOf).find((found) => found !== undefined);
    // Some clients put each result right behind its call, which makes one answer look like several.
    if (round !== undefined && round === this.#lastRound) return;
    this.#lastRound = round;
    this.#asides = [];
    this.#done += 1;
  }

  /** A summary of ours says how far the script was when the history was made shorter. */
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
