import { batch, computed, effect, signal, type Signal } from "@preact/signals";
import type {
  Calls,
  FromLog,
  Link,
  Mark,
  Moment,
  RowView,
  Screen,
  ScreenChange,
  ToLog,
  TurnSummary,
  View,
} from "../log/protocol.ts";
import { emptyMoment } from "../log/moment.ts";
import { readProof } from "./api.ts";

/** Where the log's owner runs: a worker, or this page for a log that lies in it. */
export interface LogPort {
  post(message: ToLog): void;
  onMessage: (message: FromLog) => void;
  close(): void;
}

export interface PageKind {
  /** Opens the owner of a session's log. */
  openLog(): LogPort;
  /** The log that lies in the page, if it is an exported one. */
  readonly file?: { readonly session: string; readonly events: string[] };
}

let kind: PageKind | undefined;

/** The session on the screen, for the palette. */
export const currentView: Signal<SessionView | undefined> = signal(undefined);

export function setPageKind(given: PageKind): void {
  kind = given;
}

/** Whether the page is a file with one log: nothing can be sent. */
export function isFile(): boolean {
  return kind?.file !== undefined;
}

/** A screen that is drawn in less is followed by the next one at once. */
const CHEAP_MS = 6;
const MAX_PAUSE_MS = 250;

/** The screen after a change. What is equal stays the same object. */
function toScreen(change: ScreenChange, before: Screen | undefined): Screen {
  const known = new Map(before?.rows.map((row) => [row.sequence, row]));
  const rows = change.rows.flatMap((row): readonly RowView[] => {
    if (typeof row !== "number") return [row];
    const same = known.get(row);
    return same ? [same] : [];
  });
  return {
    ...change,
    rows,
    moment: change.moment ?? before?.moment ?? emptyMoment(),
    link: keep(before?.link, change.link),
    about: keep(before?.about, change.about),
  };
}

function keep<T extends Link | Screen["about"]>(before: T | undefined, now: T): T {
  return before !== undefined && JSON.stringify(before) === JSON.stringify(now) ? before : now;
}

/** The main thread's side of one session: signals that follow the log's owner, and calls to it. */
export class SessionView {
  readonly id: string;
  readonly screen = signal<Screen | undefined>(undefined);
  /** Parts of the screen that stay the same objects while they do not change: read these, and a flood draws nothing. */
  readonly moment: Signal<Moment | undefined> = computed(() => this.screen.value?.moment);
  readonly about = computed(() => this.screen.value?.about);
  readonly link = computed(() => this.screen.value?.link);
  /** How many rows there are, as a list tells it; -1 while they become more. */
  readonly setSize = computed(() =>
    this.moment.value?.turnId === null ? (this.screen.value?.rowCount ?? 0) : -1,
  );
  readonly turns = signal<readonly TurnSummary[]>([]);
  /** The turn of the shown moment. */
  readonly turn = computed(() => {
    const now = this.screen.value?.at ?? 0;
    return this.turns.value.findLast(({ first }) => first <= now);
  });
  readonly marks = signal<readonly Mark[]>([]);
  readonly failure = signal<{ code: string; title: string; detail: string } | undefined>(undefined);
  /** The shown moment; null follows the head. */
  readonly at = signal<number | null>(null);
  readonly window = signal({ from: 0, count: 16, end: true });
  readonly all = signal(false);
  readonly hidden = signal<readonly string[]>([]);
  /** The sequence of the row in focus. */
  readonly selected = signal<number | null>(null);
  readonly opened = signal<ReadonlyMap<number, boolean>>(new Map());
  readonly openAll = signal(false);
  /** Grows when the transcript is to show its end. */
  readonly ends = signal(0);
  readonly #port: LogPort;
  readonly #calls = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #lastCall = 0;
  readonly #stop: () => void;

  constructor(id: string) {
    this.id = id;
    if (!kind) throw new Error("the page has no owner of logs");
    this.#port = kind.openLog();
    this.#port.onMessage = (message) => this.#receive(message);
    const events = kind.file?.events;
    this.#port.post({ type: "open", session: id, proof: readProof(), ...(events && { events }) });
    this.#stop = effect(() => this.#port.post({ type: "view", view: this.#view() }));
    this.#port.post({ type: "ready" });
    document.addEventListener("visibilitychange", this.#look);
    currentView.value = this;
  }

  readonly #look = (): void =>
    this.#port.post({ type: "visible", visible: document.visibilityState === "visible" });

  #view(): View {
    return { ...this.window.value, at: this.at.value, all: this.all.value, hidden: this.hidden.value };
  }

  #receive(message: FromLog): void {
    if (message.type === "failed") this.failure.value = message;
    if (message.type === "answer") {
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      if (message.failure === undefined) call?.resolve(message.result);
      else call?.reject(new Error(message.failure));
    }
    if (message.type !== "screen") return;
    const begun = performance.now();
    batch(() => {
      if (message.turns) this.turns.value = message.turns;
      if (message.marks) this.marks.value = message.marks;
      this.screen.value = toScreen(message, this.screen.value);
    });
    // The next task: the screen is drawn, and its cost is known.
    setTimeout(() => this.#askNext(performance.now() - begun), 0);
  }

  /** Asks for the next screen: at the next frame, or later where a screen costs much, so that keys and scrolling come first. */
  #askNext(cost: number): void {
    const next = (): void => void requestAnimationFrame(() => this.#port.post({ type: "ready" }));
    if (cost <= CHEAP_MS) next();
    else setTimeout(next, Math.min(cost * 3, MAX_PAUSE_MS));
  }

  call<Name extends keyof Calls>(
    name: Name,
    given: Parameters<Calls[Name]>[0],
  ): Promise<ReturnType<Calls[Name]>> {
    const id = ++this.#lastCall;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#port.post({ type: "call", id, name, given });
    });
  }

  /** Shows the moment after an event; the head follows the log again. */
  seek(sequence: number | null): void {
    const screen = this.screen.value;
    if (sequence === null || !screen) {
      this.at.value = sequence;
      return;
    }
    this.at.value = Math.max(screen.base + 1, Math.min(sequence, screen.head));
  }

  /** The shown moment, as a number. */
  get now(): number {
    return this.at.value ?? this.screen.value?.head ?? 0;
  }

  stepTurn(by: 1 | -1): void {
    const turns = this.turns.value;
    const { now } = this;
    const target =
      by > 0 ? turns.find(({ first }) => first > now) : turns.findLast(({ first }) => first < now);
    if (target) this.seek(target.first);
    else if (by > 0) this.seek(null);
  }

  toggle(sequence: number, isOpen: boolean): void {
    this.opened.value = new Map(this.opened.value).set(sequence, isOpen);
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#look);
    this.#stop();
    if (currentView.value === this) currentView.value = undefined;
    this.#port.post({ type: "close" });
    this.#port.close();
  }
}
