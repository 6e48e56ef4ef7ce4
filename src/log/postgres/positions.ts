import type { Position } from "../store.ts";
import type { SessionRows } from "./rows.ts";

/** How long a position counts as current without a look at the database. */
const TRUST_MS = 1_000;
const POSITIONS = 8192;

/** The newest known positions of sessions, in order of use. Another node may have moved them since. */
export class KnownPositions {
  readonly #rows: SessionRows;
  readonly #onForgotten: (session: string) => void;
  readonly #known = new Map<string, { position: Position; seen: number }>();
  readonly #names = new Map<number, string>();
  readonly #looking = new Map<string, Promise<Position | undefined>>();

  constructor(rows: SessionRows, onForgotten: (session: string) => void) {
    this.#rows = rows;
    this.#onForgotten = onForgotten;
  }

  get(session: string): Position | undefined {
    return this.#known.get(session)?.position;
  }

  /** The position, if it was seen a moment ago. */
  fresh(session: string): Position | undefined {
    const known = this.#known.get(session);
    return known && performance.now() - known.seen < TRUST_MS ? known.position : undefined;
  }

  nameOf(ordinal: number): string | undefined {
    return this.#names.get(ordinal);
  }

  /** One query for all callers of a moment. */
  look(session: string): Promise<Position | undefined> {
    const looking = this.#looking.get(session);
    if (looking) return looking;
    const look = this.#rows
      .positions([session])
      .then((found) => {
        const position = found.get(session);
        if (position) this.learn(session, position);
        else this.forget(session);
        return position;
      })
      .finally(() => this.#looking.delete(session));
    this.#looking.set(session, look);
    return look;
  }

  learn(session: string, position: Position): void {
    const known = this.get(session);
    if (known && known.ordinal !== position.ordinal) this.forget(session);
    this.#known.delete(session);
    // A slow answer may be older than a commit.
    const isOlder = known?.ordinal === position.ordinal && known.head > position.head;
    this.#known.set(session, { position: isOlder ? known : position, seen: performance.now() });
    this.#names.set(position.ordinal, session);
    for (const [oldest] of this.#known) {
      if (this.#known.size <= POSITIONS) return;
      this.forget(oldest);
    }
  }

  /** Notes that another node has written. False where this is known already. */
  raise(session: string, head: number): boolean {
    const known = this.#known.get(session);
    if (!known || head <= known.position.head) return false;
    known.position = { ...known.position, head };
    return true;
  }

  forget(session: string): void {
    const known = this.get(session);
    if (known) this.#names.delete(known.ordinal);
    this.#known.delete(session);
    this.#onForgotten(session);
  }
}
