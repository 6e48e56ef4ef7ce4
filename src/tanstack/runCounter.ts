import type { ModelMessage } from "@tanstack/ai";
import { countAnswers } from "./request.ts";

const KEPT = 1_000;

/**
 * Which run of a call of `chat()` is asked for. What was answered when the call began belongs to earlier ones; a call
 * that is repeated as it was is the same run.
 */
export class RunCounter {
  readonly #seen = new Map<string, number[]>();

  count(runId: string | undefined, messages: readonly ModelMessage[]): number {
    if (runId === undefined) return 1;
    const answers = countAnswers(messages);
    const seen = this.#seen.get(runId) ?? [];
    if (!seen.includes(answers)) seen.push(answers);
    this.#seen.set(runId, seen);
    const [oldest] = this.#seen.size > KEPT ? this.#seen.keys() : [];
    if (oldest !== undefined) this.#seen.delete(oldest);
    return seen.indexOf(answers) + 1;
  }
}
