import type { LogIndex } from "./log-index.ts";
import type { RowView, View } from "./protocol.ts";
import { MissingText } from "./row-view.ts";
import type { Row } from "./rows.ts";

/** The rows that a view shows, by their position on the screen. */
export class VisibleRows {
  readonly #index: LogIndex;
  /** The list without hidden rows, kept while nothing but its end changes. */
  #cached: { key: string; seen: number; list: number[] } | undefined;

  constructor(index: LogIndex) {
    this.#index = index;
  }

  /** How many rows had begun at a moment. */
  count(at: number, view: Pick<View, "all" | "hidden">): number {
    const { all } = this.#index.rows;
    const list = this.#list(view);
    let [low, high] = [0, list ? list.length : all.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const row = all[list ? (list[middle] as number) : middle] as Row;
      if (row.sequence <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  slice(at: number, view: View, from: number, count: number): Row[] {
    const { all } = this.#index.rows;
    const list = this.#list(view);
    const end = Math.min(from + count, this.count(at, view));
    const found: Row[] = [];
    for (let position = from; position < end; position++)
      found.push(all[list ? (list[position] as number) : position] as Row);
    return found;
  }

  /** The position of the row that shows an event, or of the row before it. */
  positionOf(sequence: number, view: Pick<View, "all" | "hidden">): number {
    const row = this.#index.rows.all[this.#index.columns.rowOf(sequence)];
    return Math.max(0, this.count(row?.sequence ?? sequence, view) - 1);
  }

  /** Undefined where every row is shown. */
  #list({ all: every, hidden }: Pick<View, "all" | "hidden">): readonly number[] | undefined {
    const { all, loud } = this.#index.rows;
    if (hidden.length === 0) return every ? undefined : loud;
    const key = `${every}:${hidden.join()}`;
    if (this.#cached?.key !== key) this.#cached = { key, seen: 0, list: [] };
    const { list } = this.#cached;
    const names = new Set(hidden);
    for (; this.#cached.seen < all.length; this.#cached.seen++) {
      const row = all[this.#cached.seen] as Row;
      if ((every || !row.quiet) && !this.#isHidden(row, names)) list.push(row.index);
    }
    return list;
  }

  #isHidden(row: Row, names: ReadonlySet<string>): boolean {
    const { all } = this.#index.rows;
    for (let up = all[row.parent]; up; up = all[up.parent]) if (names.has(up.id)) return true;
    return false;
  }
}

/** Undefined, and the sequence among the missing, where a text has to be read first. */
export function attempt<T>(missing: number[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof MissingText)) throw error;
    missing.push(error.sequence);
    return undefined;
  }
}

/** A row that cannot be built is told as such, and the others stay. */
export function viewOrReason(index: LogIndex, row: Row, at: number): RowView {
  try {
    return index.viewOf(row, at);
  } catch (error) {
    if (error instanceof MissingText) throw error;
    return toReason(index, row, String(error));
  }
}

export function toReason(index: LogIndex, row: Row, reason: string): RowView {
  const place = toPlaceholder(row.sequence, index.columns.timeOf(row.sequence));
  const data = JSON.stringify({ message: `This row cannot be shown: ${reason}` });
  return { ...place, type: row.type, name: row.type, data };
}

export function toPlaceholder(sequence: number, time: number): RowView {
  const shared = { sequence, last: sequence, kind: "note", type: "", time, endTime: time } as const;
  return { ...shared, depth: 0, id: `missing:${sequence}`, open: true, version: 0, data: "" };
}
