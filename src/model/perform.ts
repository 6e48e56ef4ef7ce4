import type { Step } from "../scripted-agent/step.ts";
import { type Break, type Delta, type ModelFailure, type Part, toDeltas, toFlood } from "./answer.ts";

type Fail = Extract<Step, { do: "fail" }>;

interface Performance {
  readonly parts: readonly Part[];
  /** `broken`: a scripted failure breaks the round. */
  readonly outcome: "said" | "refused" | "broken";
  /** Set if the whole request fails before any output. */
  readonly failure?: ModelFailure;
}

/** The model's output in one round, without its calls. `fails` says whether a failure is still due. */
export function performSteps(
  steps: readonly Step[],
  options: { history: string; fails: (step: Fail) => boolean },
): Performance {
  const performer = new Performer();
  for (const step of steps) {
    if (step.do === "say")
      performer.say(toDeltas(step.text === "$history" ? options.history : step.text, step.chunks));
    else if (step.do === "think") performer.think(toDeltas(step.text, step.chunks));
    else if (step.do === "flood") performer.say(toFlood(step.events, step.bytes));
    else if (step.do === "sleep") performer.pause(step.ms);
    else if (step.do === "refuse") {
      performer.say(toDeltas(step.reason));
      return performer.end("refused");
    } else if (step.do === "fail" && options.fails(step)) {
      if (step.kind === "empty") return { parts: [], outcome: "broken" };
      if (step.kind !== "cut" && step.kind !== "garbage") return performer.fail(step.kind);
      performer.breakNext(step.kind);
    } else if (AGENT_ONLY.has(step.do)) performer.think(toDeltas(toSkipped(step.do)));
  }
  return performer.end("said");
}

/** Steps that only an agent's process can do. */
const AGENT_ONLY: ReadonlySet<Step["do"]> = new Set([
  "compact",
  "image",
  "stderr",
  "raw",
  "rawBytes",
  "exit",
  "signal",
]);

/** The note about a skipped step. It is a thought, so that the script's messages stay as they are. */
function toSkipped(step: Step["do"]): string {
  return `The step "${step}" is skipped: a model cannot do it, only the scripted agent can.`;
}

class Performer {
  readonly #parts: Part[] = [];
  #pendingBreak: Break | undefined;
  #isBroken = false;

  say(deltas: readonly string[]): void {
    if (deltas.length === 0) return;
    this.#parts.push({
      do: "say",
      deltas: this.#pendingBreak === undefined ? deltas : breakInto(deltas, this.#pendingBreak),
    });
    this.#pendingBreak = undefined;
  }

  think(deltas: readonly string[]): void {
    if (deltas.length > 0) this.#parts.push({ do: "think", deltas });
  }

  pause(ms: number): void {
    this.#parts.push({ do: "pause", ms });
  }

  breakNext(fault: "cut" | "garbage"): void {
    this.#pendingBreak = { fault };
    this.#isBroken = true;
  }

  fail(failure: ModelFailure): Performance {
    const isFirst = this.#parts.every((part) => part.do === "pause");
    if (isFirst) return { parts: [], outcome: "broken", failure };
    this.#pendingBreak = { fault: "failed", failure };
    this.#isBroken = true;
    return this.end("said");
  }

  end(outcome: "said" | "refused"): Performance {
    if (this.#pendingBreak !== undefined) this.#parts.push({ do: "break", how: this.#pendingBreak });
    return { parts: this.#parts, outcome: this.#isBroken ? "broken" : outcome };
  }
}

/** Puts a garbled line after the first delta, any other fault into the middle of the text. */
function breakInto(deltas: readonly string[], how: Break): Delta[] {
  const at = how.fault === "garbage" ? 1 : Math.ceil(deltas.length / 2);
  return [...deltas.slice(0, at), how, ...deltas.slice(at)];
}
