import type { Step } from "../harness/scripted/agent/step.ts";
import type { Break, Delta, Part } from "./answer.ts";
import { toDeltas, toFlood } from "./deltas.ts";
import type { ModelFailure } from "./failure.ts";

type Fail = Extract<Step, { do: "fail" }>;

export interface Performance {
  readonly parts: readonly Part[];
  /** `broken`: a failure of the script stands in its way. */
  readonly outcome: "said" | "refused" | "broken";
  /** The request fails as a whole, before anything is said. */
  readonly failure?: ModelFailure;
}

/** What the model says in one round, without its calls. `fails` tells whether a failure is still to come. */
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
    } else if (NOT_A_MODELS.has(step.do)) performer.think(toDeltas(toSkipped(step.do)));
  }
  return performer.end("said");
}

/** Steps that an agent's process can do, and a model cannot. */
const NOT_A_MODELS: ReadonlySet<Step["do"]> = new Set([
  "compact",
  "image",
  "stderr",
  "raw",
  "rawBytes",
  "exit",
  "signal",
]);

/** A thought, so that the log tells of it and the script's words stay its own. */
export function toSkipped(step: Step["do"]): string {
  return `The step "${step}" is skipped: a model cannot do it, only the scripted agent can.`;
}

class Performer {
  readonly #parts: Part[] = [];
  #next: Break | undefined;
  #isBroken = false;

  say(deltas: readonly string[]): void {
    if (deltas.length === 0) return;
    this.#parts.push({
      do: "say",
      deltas: this.#next === undefined ? deltas : breakInto(deltas, this.#next),
    });
    this.#next = undefined;
  }

  think(deltas: readonly string[]): void {
    if (deltas.length > 0) this.#parts.push({ do: "think", deltas });
  }

  pause(ms: number): void {
    this.#parts.push({ do: "pause", ms });
  }

  breakNext(fault: "cut" | "garbage"): void {
    this.#next = { fault };
    this.#isBroken = true;
  }

  fail(failure: ModelFailure): Performance {
    const isFirst = this.#parts.every((part) => part.do === "pause");
    if (isFirst) return { parts: [], outcome: "broken", failure };
    this.#next = { fault: "failed", failure };
    this.#isBroken = true;
    return this.end("said");
  }

  end(outcome: "said" | "refused"): Performance {
    if (this.#next !== undefined) this.#parts.push({ do: "break", how: this.#next });
    return { parts: this.#parts, outcome: this.#isBroken ? "broken" : outcome };
  }
}

/** A cut comes in the middle of the text, a garbled line behind its first delta. */
function breakInto(deltas: readonly string[], how: Break): Delta[] {
  const at = how.fault === "garbage" ? 1 : Math.ceil(deltas.length / 2);
  return [...deltas.slice(0, at), how, ...deltas.slice(at)];
}
