import type { NewSession, SessionRow } from "../port.ts";
import { sessionExists } from "../refusals.ts";
import type { SessionRows } from "./rows.ts";

interface Asked {
  readonly session: NewSession;
  readonly resolve: (row: SessionRow) => void;
  readonly reject: (error: unknown) => void;
}

/** Creates sessions; those of the same moment share one transaction. */
export class Creation {
  readonly #rows: SessionRows;
  readonly #asked: Asked[] = [];

  constructor(rows: SessionRows) {
    this.#rows = rows;
  }

  create(session: NewSession): Promise<SessionRow> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ session, resolve, reject });
      if (this.#asked.length === 1) setImmediate(() => void this.#createAll(this.#asked.splice(0)));
    });
  }

  async #createAll(asked: readonly Asked[]): Promise<void> {
    try {
      const rows = await this.#rows.create(asked.map(({ session }) => session));
      for (const [index, { session, resolve, reject }] of asked.entries()) {
        const row = rows[index];
        if (row) resolve(row);
        else reject(sessionExists(session.id));
      }
    } catch (error) {
      if (asked.length === 1) return asked[0]?.reject(error);
      // A session that cannot be stored must not fail the others.
      for (const one of asked) await this.#createAll([one]);
    }
  }
}

/** Calls that have not settled yet, by session. */
export class Underway {
  readonly #calls = new Map<string, Set<Promise<unknown>>>();

  add(session: string, call: Promise<unknown>): void {
    const calls = this.#calls.get(session) ?? new Set();
    this.#calls.set(session, calls.add(call));
    const end = (): void => {
      calls.delete(call);
      if (calls.size === 0 && this.#calls.get(session) === calls) this.#calls.delete(session);
    };
    call.then(end, end);
  }

  /** Waits for the calls of a session, or of all. Their failures go to their own callers. */
  async settled(session?: string): Promise<void> {
    const sets = session === undefined ? [...this.#calls.values()] : [this.#calls.get(session) ?? []];
    const calls: Promise<unknown>[] = [];
    for (const each of sets) calls.push(...each);
    if (calls.length > 0) await Promise.allSettled(calls);
  }
}
