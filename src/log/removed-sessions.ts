/*
 * A session that is removed while readers hold it is retired: its row gets another name, and its events stay until the
 * readers have read `session.deleted`.
 */

/** The first character of a retired session's name. No session's id begins with it. */
export const RETIRED = "~";
/** How long the readers of a retired session may take to read it to its end. */
const LIMIT_MS = 30_000;

export function isRetired(session: string): boolean {
  return session.startsWith(RETIRED);
}

/** The name of the retired session with this ordinal. */
export function toRetiredName(ordinal: number): string {
  return RETIRED + ordinal;
}

/** Counts the readers of this process that hold a session, by the ordinal of its row. */
export class ReaderHolds {
  readonly #readers = new Map<number, number>();
  readonly #retired = new Map<number, { readonly limit: NodeJS.Timeout; readonly onFree: () => void }>();

  has(ordinal: number): boolean {
    return this.#readers.has(ordinal);
  }

  add(ordinal: number): () => void {
    this.#readers.set(ordinal, (this.#readers.get(ordinal) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#readers.get(ordinal) ?? 0) - 1;
      if (left > 0) return void this.#readers.set(ordinal, left);
      this.#readers.delete(ordinal);
      this.#free(ordinal);
    };
  }

  /** Calls `onFree` once: when the last reader releases the session, or after the time limit. */
  retire(ordinal: number, onFree: () => void): void {
    const limit = setTimeout(() => this.#free(ordinal), LIMIT_MS);
    limit.unref();
    this.#retired.set(ordinal, { limit, onFree });
  }

  close(): void {
    for (const { limit } of this.#retired.values()) clearTimeout(limit);
    this.#retired.clear();
  }

  #free(ordinal: number): void {
    const retired = this.#retired.get(ordinal);
    if (retired === undefined) return;
    this.#retired.delete(ordinal);
    clearTimeout(retired.limit);
    retired.onFree();
  }
}
