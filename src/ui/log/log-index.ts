import type { SluiceEvent } from "../../contract/index.ts";
import { Columns } from "./columns.ts";
import { applyToMoment, copyMoment, emptyMoment } from "./moment.ts";
import type { Moment, RowView, TurnSummary } from "./protocol.ts";
import { MissingText, type RowSource, viewRow } from "./row-view.ts";
import { type Row, Rows } from "./rows.ts";
import { Texts, type ReadPage } from "./texts.ts";
import { Turns } from "./turns.ts";

/** A moment is kept after this many events that change it, so that a seek into a long turn folds no more. */
const STRIDE = 500;
/** Rows whose last view is kept. */
const MAX_VIEWS = 100;

/** Everything that the page knows about a log, built event by event. */
export class LogIndex implements RowSource {
  readonly columns: Columns;
  readonly texts: Texts;
  readonly rows = new Rows();
  readonly turns: Turns;
  /** The state at the head. */
  readonly moment: Moment;
  /** The state before each turn, and at places within long ones: a seek folds a part and not the history. */
  readonly #starts: { readonly before: number; readonly moment: Moment }[] = [];
  #sinceStart = 0;
  #lastMoment: { readonly at: number; readonly moment: Moment } | undefined;
  readonly #views = new Map<number, { readonly at: number; readonly view: RowView }>();

  constructor(options: {
    base: number;
    moment?: Moment;
    read?: ReadPage | undefined;
    /** How many turns began before `base`. */
    turnsBefore?: number;
  }) {
    this.turns = new Turns(options.turnsBefore);
    this.columns = new Columns(options.base);
    this.texts = new Texts(options.read);
    this.moment = options.moment ?? emptyMoment();
    this.#starts.push({ before: options.base, moment: copyMoment(this.moment) });
  }

  get base(): number {
    return this.columns.base;
  }

  get head(): number {
    return this.columns.head;
  }

  /** Takes the next event; false for one that is here already. Throws where events are missing before it. */
  add(text: string): boolean {
    const event = JSON.parse(text) as SluiceEvent;
    const { sequence } = event;
    if (sequence <= this.head) return false;
    if (sequence !== this.head + 1) throw new GapError(this.head, sequence);
    if (event.type === "turn.started" || this.#sinceStart >= STRIDE) {
      this.#starts.push({ before: sequence - 1, moment: copyMoment(this.moment) });
      this.#sinceStart = 0;
    }
    const { row, textEnd } = this.rows.add(event);
    this.columns.push(event.type, Date.parse(event.time), row.index, textEnd);
    this.texts.set(sequence, text);
    if (event.type === "item.delta") return true;
    if (event.type !== "command.output" && event.type !== "process.output") this.#sinceStart += 1;
    this.turns.add(event);
    applyToMoment(this.moment, event);
    return true;
  }

  turnAt(sequence: number): TurnSummary | undefined {
    return this.turns.at(sequence);
  }

  /** The state after an event. */
  momentAt(sequence: number): Moment {
    if (sequence >= this.head) return copyMoment(this.moment);
    if (this.#lastMoment?.at === sequence) return copyMoment(this.#lastMoment.moment);
    const start = this.#startBefore(sequence);
    const moment = copyMoment(start.moment);
    for (let next = start.before + 1; next <= sequence; next++) {
      if (isGrowth(this.columns.typeOf(next))) continue;
      const text = this.texts.get(next);
      if (text === undefined) throw new MissingText(next);
      applyToMoment(moment, JSON.parse(text) as SluiceEvent);
    }
    this.#lastMoment = { at: sequence, moment: copyMoment(moment) };
    return moment;
  }

  /** A row as it was at a moment. A row that has not changed since is not read again. */
  viewOf(row: Row, at: number): RowView {
    if (row.kind === "turn") return viewRow(this, row, at);
    const until = Math.min(at, row.last);
    const known = this.#views.get(row.index);
    if (known?.at === until && (row.last > at || known.view.version === row.version)) return known.view;
    const view = viewRow(this, row, at);
    this.#views.delete(row.index);
    this.#views.set(row.index, { at: until, view });
    const [oldest] = this.#views.keys();
    if (this.#views.size > MAX_VIEWS && oldest !== undefined) this.#views.delete(oldest);
    return view;
  }

  #startBefore(sequence: number): { readonly before: number; readonly moment: Moment } {
    let [low, high] = [0, this.#starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#starts[middle] as { before: number }).before < sequence) low = middle + 1;
      else high = middle;
    }
    return this.#starts[Math.max(0, low - 1)] as { before: number; moment: Moment };
  }
}

/** Deltas and output change no moment. */
function isGrowth(type: string): boolean {
  return type === "item.delta" || type === "command.output" || type === "process.output";
}

/** Events are missing between two that came one after the other. */
export class GapError extends Error {
  constructor(head: number, sequence: number) {
    super(`After event ${head} came event ${sequence}.`);
  }
}
