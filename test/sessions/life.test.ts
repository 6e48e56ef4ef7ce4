import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Stop } from "../../src/sessions/process/ending.ts";
import {
  LIFE_STATES,
  LIFE_STEPS,
  ProcessLife,
  STRENGTH,
  TRANSITIONS,
  type LifeState,
  type LifeStep,
} from "../../src/sessions/process/life.ts";

type Life = ProcessLife<string>;

const STOPS = Object.keys(STRENGTH) as Stop[];

/** The shortest way to each state. */
const WAYS: Record<LifeState, (life: Life) => void> = {
  none: () => {},
  queued: (life) => life.start(),
  starting: (life) => {
    life.start();
    life.admitted();
  },
  running: (life) => life.found("p"),
  spent: (life) => {
    life.found("p");
    life.served();
  },
  stopping: (life) => life.stop("idle"),
  gone: (life) => {
    life.stop("terminate");
    life.stopped();
  },
};

function take(life: Life, step: LifeStep, reason: Stop): void {
  if (step === "started" || step === "found") return life[step]("p");
  if (step === "stop") return life.stop(reason);
  life[step]();
}

describe("the life of a process", () => {
  const cases = LIFE_STATES.flatMap((state) => LIFE_STEPS.map((step) => [state, step] as const));

  it.each(cases)("%s: %s", (state, step) => {
    const life: Life = new ProcessLife();
    WAYS[state](life);
    expect(life.state).toBe(state);
    const next = TRANSITIONS[state][step];
    if (next === undefined) {
      expect(() => take(life, step, "idle")).toThrow(/please report/);
      expect(life.state).toBe(state);
    } else {
      take(life, step, "idle");
      expect(life.state).toBe(next);
    }
  });

  it("takes a stronger reason for a stop, and no weaker one", () => {
    for (const first of STOPS)
      for (const second of STOPS) {
        const life: Life = new ProcessLife();
        life.found("p");
        life.stop(first);
        life.stop(second);
        expect(life.reason).toBe(STRENGTH[second] > STRENGTH[first] ? second : first);
      }
  });

  it("is free again once an interrupted process has exited and its kill is over", () => {
    const life: Life = new ProcessLife();
    life.found("p");
    life.stop("interrupt");
    expect(() => life.stopped()).toThrow(/please report/);
    life.exited();
    // The kill may still end the children of the process: a start has to wait.
    expect([life.state, life.reason, life.process]).toEqual(["stopping", "interrupt", undefined]);
    expect(() => life.start()).toThrow(/please report/);
    life.stopped();
    expect([life.state, life.reason, life.process]).toEqual(["none", undefined, undefined]);
  });

  it("holds its laws for every order of steps", () => {
    const steps = fc.array(fc.tuple(fc.constantFrom(...LIFE_STEPS), fc.constantFrom(...STOPS)), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(steps, (taken) => {
        const life: Life = new ProcessLife();
        for (const [step, reason] of taken) {
          const before = { state: life.state, reason: life.reason };
          if (TRANSITIONS[life.state][step] === undefined) continue;
          if (step === "stopped" && life.process !== undefined) {
            expect(() => life.stopped()).toThrow(/please report/);
            continue;
          }
          take(life, step, reason);
          if (life.state === "running" || life.state === "spent") expect(life.process).toBe("p");
          if (["none", "queued", "starting"].includes(life.state)) expect(life.process).toBeUndefined();
          expect(life.reason !== undefined).toBe(life.isStopping);
          if (before.state === "gone") expect(life.state).toBe("gone");
          if (before.reason !== undefined && life.reason !== undefined)
            expect(STRENGTH[life.reason]).toBeGreaterThanOrEqual(STRENGTH[before.reason]);
          // The end of a session is never taken back.
          if (before.reason === "terminate" || before.reason === "remove") expect(life.isEnding).toBe(true);
        }
      }),
    );
  });

  it("can be ended for good from every state", () => {
    for (const state of LIFE_STATES) {
      const life: Life = new ProcessLife();
      WAYS[state](life);
      life.stop("terminate");
      if (life.process !== undefined) life.exited();
      life.stopped();
      expect(life.state).toBe("gone");
    }
  });
});
