import { totalmem } from "node:os";

/** What an agent that rests takes at least: a Node process and its relay. */
const AGENT_BYTES = 50 * 1024 ** 2;
/** So many may rest however small the memory is. */
const FEWEST = 16;

/** How soon one that was busy is looked at again. */
const AGAIN_MS = 1_000;

/** An agent that has nothing to do. */
export interface RestingAgent {
  /** Whether something is being done with its session that may need it. */
  readonly isBusy: boolean;
  /** Ends it; the next message starts it again where it was. */
  sleep(): void;
}

/** Lets a bounded number of agents rest; the longest resting ones are put to sleep (docs/decisions/0055). */
export class RestingAgents {
  readonly #bound: number;
  /** The longest resting one first. */
  readonly #resting = new Set<RestingAgent>();
  #putToSleep = 0;
  #again: NodeJS.Timeout | undefined;

  constructor(bound: number = toRestingBound()) {
    this.#bound = Math.max(1, bound);
  }

  get stats(): { agents: number; bound: number; putToSleep: number } {
    return { agents: this.#resting.size, bound: this.#bound, putToSleep: this.#putToSleep };
  }

  /** Told after every change of a session; one that rests on keeps its place. */
  tell(agent: RestingAgent, isResting: boolean): void {
    if (!isResting) {
      this.#resting.delete(agent);
      return;
    }
    this.#resting.add(agent);
    this.#putSurplusToSleep();
  }

  /** Whoever has just come to rest is busy with that. */
  #putSurplusToSleep(): void {
    if (this.#resting.size <= this.#bound) return;
    for (const agent of this.#resting) {
      if (agent.isBusy) continue;
      this.#resting.delete(agent);
      this.#putToSleep += 1;
      agent.sleep();
      if (this.#resting.size <= this.#bound) return;
    }
    if (this.#again !== undefined) return;
    this.#again = setTimeout(() => {
      this.#again = undefined;
      this.#putSurplusToSleep();
    }, AGAIN_MS).unref();
  }
}

/** Half of the memory that this process may use. */
export function toRestingBound({ limit }: { limit: number } = { limit: memoryLimit() }): number {
  return Math.max(FEWEST, Math.floor(limit / 2 / AGENT_BYTES));
}

/** A control group may allow less than the machine has; one that allows everything says 0 or more than there is. */
function memoryLimit(): number {
  return Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
}
