import type { Step } from "../harness/scripted/agent/step.ts";
import { toCallSteps } from "./tools/toolbox.ts";

/** The steps of one answer, with the place in the script at which they begin. */
export interface Round {
  readonly steps: readonly Step[];
  readonly from: number;
}

/** A script as the answers that play it: each ends with a call, the last one with the turn. */
export function toRounds(script: readonly Step[]): Round[] {
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
