/** An ended turn, in the form that its writer gave it. `from` is the sequence after the turn before. */
export interface KeptTurn {
  readonly from: number;
  readonly last: number;
  /** JSON text. */
  readonly outline: string;
}

/** A session's fold after the event `at`, as JSON text. */
export interface KeptFold {
  readonly at: number;
  readonly state: string;
}

/** The turns and folds of one append, or of a log whose turns were not kept. */
export interface KeptHistory {
  readonly turns: readonly KeptTurn[];
  readonly folds: readonly KeptFold[];
}

/**
 * The kept turns and folds, so that readers need not fold the history again. All of it follows from the events, so a
 * missing row only costs time. Sessions are named by their `ordinal`.
 */
export interface TurnHistory {
  /** The ended turns whose last event is before `before`, newest first. */
  list(ordinal: number, page: { readonly before: number; readonly limit: number }): Promise<KeptTurn[]>;
  /** The newest fold at or before this sequence. */
  foldAt(ordinal: number, sequence: number): Promise<KeptFold | undefined>;
  /** Adds rows; those that exist stay as they are. */
  add(ordinal: number, history: KeptHistory): Promise<void>;
}

/** The rows of a store. */
export type TurnRows = {
  readonly [Method in keyof TurnHistory]: (
    ...parameters: Parameters<TurnHistory[Method]>
  ) => Awaited<ReturnType<TurnHistory[Method]>>;
};

/** The rows of the memory log. */
export class MemoryTurns implements TurnRows {
  readonly #turns = new Map<number, KeptTurn[]>();
  readonly #folds = new Map<number, KeptFold[]>();
  readonly #exists: (ordinal: number) => boolean;

  constructor(exists: (ordinal: number) => boolean) {
    this.#exists = exists;
  }

  list(ordinal: number, { before, limit }: { before: number; limit: number }): KeptTurn[] {
    const turns = this.#turns.get(ordinal) ?? [];
    return turns
      .filter(({ last }) => last < before)
      .slice(-limit)
      .toReversed();
  }

  foldAt(ordinal: number, sequence: number): KeptFold | undefined {
    return this.#folds.get(ordinal)?.findLast(({ at }) => at <= sequence);
  }

  /** The rows of a session that was removed are not added again. */
  add(ordinal: number, { turns, folds }: KeptHistory): void {
    if (!this.#exists(ordinal)) return;
    this.#turns.set(
      ordinal,
      merge(this.#turns.get(ordinal) ?? [], turns, ({ last }) => last),
    );
    this.#folds.set(
      ordinal,
      merge(this.#folds.get(ordinal) ?? [], folds, ({ at }) => at),
    );
  }

  /** Forgets the turns that have ended up to this sequence, and the folds before it. */
  trim(ordinal: number, through: number): void {
    this.#turns.set(
      ordinal,
      (this.#turns.get(ordinal) ?? []).filter(({ last }) => last > through),
    );
    this.#folds.set(
      ordinal,
      (this.#folds.get(ordinal) ?? []).filter(({ at }) => at >= through),
    );
  }

  remove(ordinal: number): void {
    this.#turns.delete(ordinal);
    this.#folds.delete(ordinal);
  }
}

function merge<Row>(known: readonly Row[], added: readonly Row[], keyOf: (row: Row) => number): Row[] {
  const keys = new Set(known.map(keyOf));
  return [...known, ...added.filter((row) => !keys.has(keyOf(row)))].sort((a, b) => keyOf(a) - keyOf(b));
}
