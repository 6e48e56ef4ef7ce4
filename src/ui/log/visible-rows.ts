import type { LogIndex } from "./log-index.ts";
import type { Moment, RowView, View } from "./protocol.ts";
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

/** More events in a second than anybody reads: rows fly by. */
const FAST = 1_000;
/** Of a text that flies by, its end is shown. */
const SKIMMED = 2_000;

/** What the page has from the last screen: rows and a state that have not changed are not copied to it again. */
export class SentScreen {
  #rows = new Map<number, { readonly view: RowView; readonly more: string }>();
  #moment = "";
  #head = 0;
  #time = 0;
  /** Whether long texts were cut because they flew by. A later screen has them whole. */
  isSkimmed = false;

  /** Whether events come so fast that the end of a long text is enough. */
  isFast(head: number): boolean {
    const now = performance.now();
    const isFast = head - this.#head > (FAST * (now - this.#time)) / 1_000;
    [this.#head, this.#time] = [head, now];
    return isFast;
  }

  rows(
    views: readonly RowView[],
    nested: readonly RowView["nested"][],
    isFast: boolean,
  ): (RowView | number)[] {
    const before = this.#rows;
    this.#rows = new Map();
    this.isSkimmed = false;
    return views.map((view, index) => {
      // The row of a turn is built for every screen, the others are kept while they stay the same.
      const isTurn = view.kind === "turn";
      const isCut = isFast && view.text !== undefined && view.text.length > SKIMMED;
      if (isCut) this.isSkimmed = true;
      const more = JSON.stringify(isTurn ? view : [isCut, nested[index]]);
      const known = before.get(view.sequence);
      this.#rows.set(view.sequence, { view, more });
      if (known && known.more === more && (isTurn || known.view === view)) return view.sequence;
      return {
        ...view,
        ...(isCut && { text: `…${view.text?.slice(-SKIMMED)}` }),
        ...(nested[index] && { nested: nested[index] }),
      };
    });
  }

  moment(moment: Moment): { moment?: Moment } {
    const text = JSON.stringify(moment);
    if (text === this.#moment) return {};
    this.#moment = text;
    return { moment };
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
