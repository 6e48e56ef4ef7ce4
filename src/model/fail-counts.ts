/** How often a scripted failure was acted out, per step and conversation: the model's only memory. */
export class FailCounts {
  readonly #counts = new Map<string, number>();

  /** Whether it is still to fail, and if so counts it. */
  take(key: string, times: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= times) return false;
    this.#counts.set(key, count + 1);
    if (this.#counts.size > MOST) this.#counts.delete(this.#counts.keys().next().value ?? "");
    return true;
  }

  /** An answer got through: the same conversation, begun anew, fails anew. */
  forget(keys: readonly string[]): void {
    for (const key of keys) this.#counts.delete(key);
  }

  clear(): void {
    this.#counts.clear();
  }
}

const MOST = 10_000;
