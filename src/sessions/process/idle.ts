import { totalmem } from "node:os";
import { toDue, type Due } from "../upkeep/alarms.ts";

/** The least memory of an idle agent: a Node process and its relay. */
const AGENT_BYTES = 50 * 1024 ** 2;
/** The least bound, however small the memory is. */
const FEWEST = 16;

/** How soon a busy agent is tried again. */
const AGAIN_MS = 1_000;

/** The end of an agent that has had no work since `lastTime`. */
export function idleEndOf(lastTime: number, { idleMs }: { idleMs: number }): Due {
  return toDue("sleep", lastTime, idleMs);
}

/** An agent without a turn. */
export interface RestingAgent {
  /** Whether its session is in use, and may need it. */
  readonly isBusy: boolean;
  /** Ends it. The next message starts it again with its memory. */
  sleep(): void;
}

/** Bounds the number of idle agents. The longest idle one is ended first (docs/decisions/0055). */
export class RestingAgents {
  readonly #bound: number;
  /** The longest idle one first. */
  readonly #resting = new Set<RestingAgent>();
  #putToSleep = 0;
  #again: NodeJS.Timeout | undefined;

  constructor(bound: number = toRestingBound()) {
    this.#bound = Math.max(1, bound);
  }

  get stats(): { agents: number; bound: number; putToSleep: number } {
    return { agents: this.#resting.size, bound: this.#bound, putToSleep: this.#putToSleep };
  }

  /** Call it after every change of a session. An agent that stays idle keeps its position. */
  tell(agent: RestingAgent, isResting: boolean): void {
    if (!isResting) {
      this.#resting.delete(agent);
      return;
    }
    this.#resting.add(agent);
    this.#putSurplusToSleep();
  }

  /** An agent that has just become idle still holds its lock, and is skipped. */
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

/** The number of idle agents that fit into half of the memory that this process may use. */
export function toRestingBound({ limit }: { limit: number } = { limit: memoryLimit() }): number {
  return Math.max(FEWEST, Math.floor(limit / 2 / AGENT_BYTES));
}

/** A control group may allow less memory than the machine has. Node reports a missing limit as 0, or as more than there is. */
function memoryLimit(): number {
  return Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
}
