import { describe, expect, it } from "vitest";
import {
  initialState,
  isInTurn,
  isServing,
  nextPhase,
  type Phase,
  PHASES,
  type PhaseStep,
  restoreState,
} from "../../../src/harness/claude/state.ts";

const STEPS: readonly PhaseStep[] = ["answered", "prompted", "begun", "ended"];

describe("the phases of Claude's conversation", () => {
  it.each<[Phase, readonly Phase[]]>([
    ["greeting", ["ready", "prompted", "greeting", "greeting"]],
    ["ready", ["ready", "prompted", "ready", "ready"]],
    ["prompted", ["prompted", "prompted", "running", "resting"]],
    ["running", ["running", "running", "running", "resting"]],
    ["resting", ["resting", "prompted", "resting", "resting"]],
  ])("lead from %s to the next", (phase, next) => {
    expect(STEPS.map((step) => nextPhase(phase, step))).toEqual(next);
  });

  it("tell a turn from the time between turns", () => {
    const states = (Object.keys(PHASES) as Phase[]).map((phase) =>
      Object.assign(initialState("itm_"), { phase }),
    );
    expect(states.filter(isInTurn).map(({ phase }) => phase)).toEqual(["prompted", "running"]);
    expect(states.filter((state) => !isServing(state)).map(({ phase }) => phase)).toEqual(["resting"]);
  });

  it.each<[Phase, object]>([
    ["greeting", { isReady: false, isAddressed: false, inTurn: false, isBegun: false }],
    ["ready", { isReady: true, isAddressed: false, inTurn: false, isBegun: true }],
    ["prompted", { isReady: true, isAddressed: true, inTurn: true, isBegun: false }],
    ["running", { isReady: true, isAddressed: true, inTurn: true, isBegun: true }],
    ["resting", { isReady: true, isAddressed: true, inTurn: false, isBegun: true }],
  ])("restore %s from the flags of an earlier version", (phase, flags) => {
    const { phase: _, ...rest } = initialState("itm_");
    expect(restoreState({ ...rest, ...flags } as never).phase).toBe(phase);
  });
});
