import { SluiceError } from "../../contract/index.ts";
import type { Stop } from "./ending.ts";

/**
 * The states of a session's agent process. `spent`: the process serves one turn only and has served it. `stopping`: it
 * lasts until everything in the sandbox has ended. `gone`: the session never starts a process again.
 */
export const LIFE_STATES = ["none", "queued", "starting", "running", "spent", "stopping", "gone"] as const;
export type LifeState = (typeof LIFE_STATES)[number];

/**
 * `found`: the process of an earlier server still runs. `unstarted`: a start failed, and no part of it runs. `stopped`:
 * a stop is complete.
 */
export const LIFE_STEPS = [
  "start",
  "admitted",
  "started",
  "unstarted",
  "found",
  "served",
  "exited",
  "stop",
  "stopped",
] as const;
export type LifeStep = (typeof LIFE_STEPS)[number];

/** All steps of a process. A step outside its row is a bug in the engine. */
export const TRANSITIONS: Readonly<Record<LifeState, Readonly<Partial<Record<LifeStep, LifeState>>>>> = {
  none: { start: "queued", found: "running", stop: "stopping" },
  queued: { admitted: "starting", unstarted: "none", stop: "stopping" },
  starting: { started: "running", unstarted: "none", stop: "stopping" },
  running: { unstarted: "none", served: "spent", exited: "none", stop: "stopping" },
  spent: { served: "spent", exited: "none", stop: "stopping" },
  // A stop does not cancel a start or a process: their own steps still arrive.
  stopping: {
    started: "stopping",
    unstarted: "stopping",
    served: "stopping",
    exited: "stopping",
    stop: "stopping",
    stopped: "none",
  },
  gone: { stop: "gone", stopped: "gone" },
};

/**
 * The strength of each reason. Only a stronger one replaces a reason: the end of a session never becomes an idle sleep.
 */
export const STRENGTH: Readonly<Record<Stop, number>> = {
  interrupt: 0,
  idle: 1,
  failure: 2,
  terminate: 3,
  remove: 4,
};

/** The state machine of a session's process, through all its lives. It starts and ends nothing by itself. */
export class ProcessLife<P> {
  #state: LifeState = "none";
  #reason: Stop | undefined;
  #process: P | undefined;

  get state(): LifeState {
    return this.#state;
  }

  /** The reason of the stop that is under way, or of the end for good. */
  get reason(): Stop | undefined {
    return this.#reason;
  }

  get process(): P | undefined {
    return this.#process;
  }

  /** Whether the session ends, or has ended, for good. */
  get isEnding(): boolean {
    return this.#reason === "terminate" || this.#reason === "remove";
  }

  get isStopping(): boolean {
    return this.#state === "stopping" || this.#state === "gone";
  }

  start(): void {
    this.#take("start");
  }

  admitted(): void {
    this.#take("admitted");
  }

  started(process: P): void {
    this.#take("started");
    this.#process = process;
  }

  found(process: P): void {
    this.#take("found");
    this.#process = process;
  }

  /** Nothing was started, or the started process was unusable and has ended. */
  unstarted(): void {
    this.#take("unstarted");
    this.#process = undefined;
  }

  served(): void {
    this.#take("served");
  }

  exited(): void {
    this.#take("exited");
    this.#process = undefined;
  }

  stop(reason: Stop): void {
    this.#take("stop");
    if (this.#reason === undefined || STRENGTH[reason] > STRENGTH[this.#reason]) this.#reason = reason;
  }

  /** Everything in the sandbox has ended. */
  stopped(): void {
    if (this.#process !== undefined) throw fault(this.#state, "stopped");
    this.#take("stopped");
    if (this.isEnding) this.#state = "gone";
    else this.#reason = undefined;
  }

  #take(step: LifeStep): void {
    const next = TRANSITIONS[this.#state][step];
    if (next === undefined) throw fault(this.#state, step);
    this.#state = next;
  }
}

function fault(state: LifeState, step: LifeStep): SluiceError {
  const message = `a process in the state "${state}" cannot take the step "${step}"; please report this`;
  return new SluiceError("internal", message, { state, step });
}
