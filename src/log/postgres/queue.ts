import type { Appended } from "../port.ts";
import { outOfStep } from "../refusals.ts";
import { serialise, type NewSegment, type Serialised } from "../segment.ts";
import { EventSerialiser } from "../serialise.ts";
import type { Position } from "../store.ts";
import { isRich, type ReadyBatch, type Run } from "./commit.ts";

/** The most events of one run. */
const RUN_EVENTS = 4096;

export interface Pending {
  readonly batch: ReadyBatch;
  ahead: Serialised | undefined;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}

/** A run, and the appends that it settles. */
export interface TakenRun {
  readonly run: Run;
  readonly pending: readonly Pending[];
}

/** The appends of one session that wait, and its position as of the last commit. */
export class Queue {
  readonly session: string;
  readonly waiting: Pending[] = [];
  known: { readonly position: Position; readonly serialiser: EventSerialiser } | undefined;
  /** The head after all waiting appends are stored. */
  planned: number | undefined;
  /** Set after a failure of several batches at once: they go one by one until one is stored. */
  isSingle = false;
  /** Whether the position was read from the database after the last commit. */
  isConfirmed = false;

  constructor(session: string) {
    this.session = session;
  }

  learn(position: Position): void {
    const isSame =
      this.known?.position.ordinal === position.ordinal &&
      this.known.position.createdAt === position.createdAt;
    const serialiser =
      (isSame ? this.known?.serialiser : undefined) ??
      new EventSerialiser({ id: this.session, createdAt: position.createdAt });
    this.known = { position, serialiser };
  }

  forget(): void {
    this.known = undefined;
    this.isConfirmed = false;
    this.planned = undefined;
  }

  reject(count: number, error: unknown): void {
    for (const { reject } of this.waiting.splice(0, count)) reject(error);
    if (this.waiting.length === 0) this.planned = this.known?.position.head;
  }

  /** The first batches that can be stored together. Undefined where the first one does not follow the known head. */
  takeRun(): TakenRun | undefined {
    const { known, waiting, isSingle } = this;
    if (!known) return undefined;
    const { position, serialiser } = known;
    const pending: Pending[] = [];
    const segments: NewSegment[] = [];
    let { head } = position;
    for (const next of waiting) {
      const { batch } = next;
      if (batch.after !== undefined && batch.after !== head) break;
      if (pending[0] && pending[0].batch.epoch !== batch.epoch) break;
      const isReady = next.ahead?.serialiser === serialiser && next.ahead.first === head + 1;
      next.ahead = isReady ? next.ahead : serialise(batch, serialiser, head + 1);
      segments.push(...(next.ahead?.segments ?? []));
      head += batch.events.length;
      pending.push(next);
      if (isSingle || isRich(batch) || head - position.head >= RUN_EVENTS) break;
    }
    if (pending.length > 0)
      return { run: { position, batches: pending.map(({ batch }) => batch), segments, head }, pending };
    // The first batch does not follow the known head. Unless the head was just read, it may be old.
    const after = waiting[0]?.batch.after;
    if (this.isConfirmed) this.reject(1, outOfStep(this.session, { head, after }));
    else this.forget();
    return undefined;
  }
}
