import { orHalted } from "./halt.ts";
import type { AgentCommand } from "./protocol.ts";

type Answer = Extract<AgentCommand, { type: "permission" | "answer" | "tool_result" }>;
type AnswerOf<T extends Answer["type"]> = Extract<Answer, { type: T }>;

/** The steps that wait for an answer on stdin, or for a retry. */
export class Answers {
  readonly #waiting = new Map<string, (answer: Answer) => void>();
  readonly #retries = new Set<{ wake?: () => void }>();

  async wait<T extends Answer["type"]>(type: T, id: string, signal: AbortSignal): Promise<AnswerOf<T>> {
    const key = keyOf(type, id);
    const answer = new Promise<Answer>((resolve) => this.#waiting.set(key, resolve));
    try {
      return (await orHalted(signal, answer)) as AnswerOf<T>;
    } finally {
      this.#waiting.delete(key);
    }
  }

  /** Returns false if no step waits for the answer. */
  deliver(answer: Answer): boolean {
    const resolve = this.#waiting.get(keyOf(answer.type, answer.id));
    resolve?.(answer);
    return resolve !== undefined;
  }

  async waitForRetry(signal: AbortSignal): Promise<void> {
    const waiter: { wake?: () => void } = {};
    const retried = new Promise<void>((resolve) => {
      waiter.wake = resolve;
    });
    this.#retries.add(waiter);
    try {
      await orHalted(signal, retried);
    } finally {
      this.#retries.delete(waiter);
    }
  }

  get waitsForRetry(): boolean {
    return this.#retries.size > 0;
  }

  get waits(): boolean {
    return this.#waiting.size > 0 || this.waitsForRetry;
  }

  /** Wakes the steps that wait for a retry. Returns false if there are none. */
  retry(): boolean {
    if (!this.waitsForRetry) return false;
    for (const waiter of this.#retries) waiter.wake?.();
    return true;
  }
}

function keyOf(type: Answer["type"], id: string): string {
  return `${type} ${id}`;
}
