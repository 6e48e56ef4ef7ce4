import { SluiceError } from "../contract/index.ts";
import type { Stop } from "./ending.ts";

/**
 * Where a session is with its agent's process: it has none, a start waits its turn, one is being started, one runs, one has
 * served the only turn that it serves, all that runs is being ended, or it will never have one again.
 */
export const LIFE_STATES = ["none", "queued", "starting", "running", "spent", "stopping", "gone"] as const;
export type LifeState = (typeof LIFE_STATES)[number];

/** `found` is one of an earlier server; after `unstarted` nothing of a start runs; `stopped` is the end of an ending. */
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

/** All that can happen to a process. A step that is not in its row is a fault of ours. */
export const TRANSITIONS: Readonly<Record<LifeState, Readonly<Partial<Record<LifeStep, LifeState>>>>> = {
  none: { start: "queued", found: "running", stop: "stopping" },
  queued: { admitted: "starting", unstarted: "none", stop: "stopping" },
  starting: { started: "running", unstarted: "none", stop: "stopping" },
  running: { unstarted: "none", served: "spent", exited: "none", stop: "stopping" },
  spent: { served: "spent", exited: "none", stop: "stopping" },
  // Also what was being started or ran when the end began goes on until it is seen to have ended.
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

/** A stop gives way to a stronger one alone: nothing turns the end of a session into a nap. */
export const STRENGTH: Readonly<Record<Stop, number>> = {
  interrupt: 0,
  idle: 1,
  failure: 2,
  terminate: 3,
  remove: 4,
};

/** The process of a session through all its lives, as a state machine. It does nothing by itself. */
export class ProcessLife<P> {
  #state: LifeState = "none";
  #reason: Stop | undefined;
  #process: P | undefined;

  get state(): LifeState {
    return this.#state;
  }

  /** Why all that runs is being ended, or was for good. */
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

  /** Nothing was started after all, or it could not be used and is no more. */
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
    // An interrupt is over with the process that it was for.
    if (this.#reason === "interrupt") this.stopped();
  }

  stop(reason: Stop): void {
    this.#take("stop");
    if (this.#reason === undefined || STRENGTH[reason] > STRENGTH[this.#reason]) this.#reason = reason;
  }

  /** Nothing of it runs any more. */
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
  const message = `the step "${step}" is none for a process in the state "${state}"; please report this`;
  return new SluiceError("internal", message, { state, step });
}
