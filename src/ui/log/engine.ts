import { SluiceClientError } from "../../client/errors.ts";
import type { SessionInfo } from "../../contract/index.ts";
import { createCalls } from "./calls.ts";
import { LogIndex } from "./log-index.ts";
import { emptyMoment, findAgent, fromInfo } from "./moment.ts";
import type {
  Calls,
  FromLog,
  Link,
  Mark,
  RowView,
  Screen,
  ScreenChange,
  ToLog,
  TurnSummary,
  View,
} from "./protocol.ts";
import type { Row } from "./rows.ts";
import { createTransport, ServerLog, Sight } from "./server-log.ts";
import { fromOutline } from "./turns.ts";
import { attempt, SentScreen, toPlaceholder, toReason, viewOrReason, VisibleRows } from "./visible-rows.ts";

/** A log of at most this many events is read whole before anything is shown. */
const SMALL = 2_000;
/** How much of the end of a longer log is shown at once; more where its last turn is longer, up to this. */
const TAIL = 600;
const MAX_TAIL = 3_000;
const MAX_LOADS = 20;
/** After a flood, texts that were cut are shown whole. */
const CALM_MS = 200;

/** Calls whose answers would be wrong for a part of the log. */
const OF_THE_WHOLE: ReadonlySet<keyof Calls> = new Set(["search", "markdown"]);

/** Owns one session's log. The page gets what it shows, at most once per frame, and never the whole. */
export class LogEngine {
  readonly #post: (message: FromLog) => void;
  #view: View = { at: null, from: 0, count: 0, end: false, all: false, hidden: [] };
  #index = new LogIndex({ base: 0 });
  #server: ServerLog | undefined;
  #visible = new VisibleRows(this.#index);
  readonly #sent = new SentScreen();
  readonly #closing = new AbortController();
  readonly #sight = new Sight();
  /** The turns of a long log before all of it is indexed. */
  #outline: { readonly turns: TurnSummary[]; readonly marks: Mark[] } | undefined;
  #link: Link = { state: "opening", gaps: 0, doubles: 0, cuts: 0 };
  #isReady = false;
  #isStale = true;
  #isComplete = false;
  /** Resolves when the index has every event that was there at the beginning. */
  #read = (): void => {};
  readonly #wholeLog = new Promise<void>((resolve) => (this.#read = resolve));
  #sentTurns = -1;
  /** How often events of a row were missing in the view. */
  readonly #loads = new Map<number, number>();
  #about: Screen["about"] = { agent: "", title: null };

  constructor(post: (message: FromLog) => void) {
    this.#post = post;
  }

  receive(message: ToLog): void {
    if (message.type === "open") {
      void (message.events ? this.#openFile(message.events) : this.#open(message)).catch((error: unknown) =>
        this.#fail(error),
      );
    }
    if (message.type === "view") {
      this.#view = message.view;
      this.#loads.clear();
      this.#change();
    }
    if (message.type === "ready") {
      this.#isReady = true;
      this.#send();
    }
    if (message.type === "visible") this.#sight.set(message.visible);
    if (message.type === "close") this.#closing.abort();
    if (message.type === "call") void this.#answer(message.id, message.name, message.given);
  }

  /** A log that lies in the page itself. */
  async #openFile(events: readonly string[]): Promise<void> {
    const first = events[0];
    const base = first === undefined ? 0 : (JSON.parse(first) as { sequence: number }).sequence - 1;
    this.#use(new LogIndex({ base }));
    for (const text of events) this.#index.add(text);
    this.#about = { agent: findAgent(events), title: null };
    this.#isComplete = true;
    this.#read();
    this.#setLink("offline");
  }

  async #open({ session, proof }: { session: string; proof: string | null }): Promise<void> {
    const server = new ServerLog(createTransport(proof), session);
    this.#server = server;
    const info = await server.info();
    this.#about = { agent: info.agent, title: info.title };
    const base = (info.oldest ?? 1) - 1;
    const whole = new LogIndex({ base, read: (after, limit) => server.page(after, limit) });
    if (info.eventCount - base <= SMALL) this.#use(whole);
    else await this.#showTail(server, info);
    this.#setLink("catching-up");
    await server.follow({
      after: base,
      signal: this.#closing.signal,
      sight: this.#sight,
      take: (texts) => this.#take(whole, texts, info.eventCount),
      onLink: (state, reason) => {
        if (state === "cut") this.#setLink("lost", reason, 1);
        else if (state === "resting") this.#setLink("resting");
        else {
          this.#setLink(this.#isComplete ? "live" : "catching-up");
          this.#complete(whole, info.eventCount);
        }
      },
    });
    this.#setLink("over");
  }

  /** The end of a long log, until all of it is indexed. Its state is the server's. */
  async #showTail(server: ServerLog, info: SessionInfo): Promise<void> {
    const least = info.eventCount - TAIL;
    const [end, outline] = await Promise.all([server.range(least, info.eventCount), server.outline()]);
    const start = (outline.turns.at(-1)?.first ?? 1) - 1;
    const base = start < least && start >= info.eventCount - MAX_TAIL ? start : least;
    const texts = base < least ? [...(await server.range(base, least)), ...end] : end;
    const inside = outline.turns.find(({ first }) => first > base);
    const tail = new LogIndex({
      base,
      moment: fromInfo(info),
      turnsBefore: (inside?.number ?? (outline.turns.at(-1)?.number ?? 0) + 1) - 1,
      read: (after, limit) => server.page(after, limit),
    });
    this.#outline = fromOutline(outline);
    this.#use(tail);
    for (const text of texts) if (tail.head < info.eventCount) tail.add(text);
    Object.assign(tail.moment, fromInfo(info));
    this.#change();
  }

  #take(whole: LogIndex, texts: readonly string[], known: number): number {
    let doubles = 0;
    let gaps = 0;
    for (const text of texts) {
      try {
        if (!whole.add(text)) doubles += 1;
      } catch {
        // The next connection asks again from the last event that is here.
        gaps += 1;
        this.#link = { ...this.#link, gaps: this.#link.gaps + gaps };
        throw new Error("An event was missing in the stream.");
      }
    }
    if (doubles > 0) this.#link = { ...this.#link, doubles: this.#link.doubles + doubles };
    this.#complete(whole, known);
    this.#change();
    return whole.head;
  }

  /** Goes over to the whole log once it has every event that was there at the beginning; an empty one has. */
  #complete(whole: LogIndex, known: number): void {
    if (this.#isComplete || whole.head < known) return;
    this.#isComplete = true;
    this.#use(whole);
    this.#read();
    this.#setLink("live");
  }

  #use(index: LogIndex): void {
    if (this.#index === index) return;
    this.#index = index;
    this.#visible = new VisibleRows(index);
    this.#sentTurns = -1;
  }

  #setLink(state: Link["state"], reason = "", cuts = 0): void {
    this.#link = { ...this.#link, state, reason, cuts: this.#link.cuts + cuts };
    this.#change();
  }

  #change(): void {
    this.#isStale = true;
    this.#send();
  }

  /** Sends the screen if the page has drawn the last one. */
  #send(): void {
    if (!this.#isReady || !this.#isStale) return;
    this.#isReady = false;
    this.#isStale = false;
    try {
      this.#post(this.#toScreen());
      if (this.#sent.isSkimmed) setTimeout(() => this.#change(), CALM_MS);
    } catch (error) {
      this.#fail(error);
    }
  }

  #toScreen(): ScreenChange {
    const { from, count, end } = this.#view;
    const index = this.#index;
    const at = Math.max(index.base, Math.min(this.#view.at ?? index.head, index.head));
    const missing: number[] = [];
    const rows: RowView[] = [];
    const nested: RowView["nested"][] = [];
    const rowCount = this.#visible.count(at, this.#view);
    const first = Math.max(0, Math.min(end ? rowCount - count : from, rowCount - 1));
    for (const row of this.#visible.slice(at, this.#view, first, count)) {
      const view = attempt(missing, () => viewOrReason(index, row, at)) ?? this.#tooLong(missing, row);
      rows.push(view ?? toPlaceholder(row.sequence, index.columns.timeOf(row.sequence)));
      nested.push(
        view && row.nested > 0
          ? { count: row.nested, hidden: this.#view.hidden.includes(row.id) }
          : undefined,
      );
    }
    const moment = attempt(missing, () => index.momentAt(at)) ?? emptyMoment();
    if (missing.length > 0) void this.#load(missing);
    const isFast = this.#sent.isFast(index.head) && end && this.#link.state === "live";
    const { version } = index.turns;
    const isNew = version !== this.#sentTurns;
    const { turns, marks } = (!this.#isComplete && this.#outline) || {
      turns: index.turns.all,
      marks: index.turns.marks,
    };
    this.#sentTurns = version;
    return {
      type: "screen",
      base: index.base,
      head: index.head,
      at,
      atTime: index.columns.timeOf(at),
      headTime: index.columns.timeOf(index.head),
      link: this.#link,
      about: this.#about,
      ...this.#sent.moment(moment),
      ...(isNew && { turns: turns.slice(), marks: marks.slice() }),
      rowCount,
      from: first,
      rows: this.#sent.rows(rows, nested, isFast),
      complete: this.#isComplete,
      missing: missing.length > 0,
    };
  }

  /** A row that needs more events than memory keeps is not read for ever. */
  #tooLong(missing: number[], row: Row): RowView | undefined {
    const known = this.#loads.get(row.index) ?? 0;
    this.#loads.set(row.index, known + 1);
    if (known < MAX_LOADS) return undefined;
    missing.pop();
    return toReason(this.#index, row, "it is told by more events than the page keeps at once");
  }

  async #load(missing: readonly number[]): Promise<void> {
    const { texts } = this.#index;
    try {
      for (const sequence of missing) await texts.load(sequence, sequence);
    } catch {
      // A server that does not answer is not asked again with every frame.
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
    if (!this.#closing.signal.aborted) this.#change();
  }

  async #answer(id: number, name: keyof Calls, given: unknown): Promise<void> {
    try {
      if (OF_THE_WHOLE.has(name)) await this.#wholeLog;
      const calls = createCalls(this.#index, this.#visible, {
        view: this.#view,
        server: this.#server,
        agent: this.#about.agent || undefined,
      });
      const result = await (calls[name] as (given: unknown) => unknown)(given);
      this.#post({ type: "answer", id, result });
    } catch (error) {
      this.#post({ type: "answer", id, failure: error instanceof Error ? error.message : String(error) });
    }
  }

  #fail(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const known = error instanceof SluiceClientError ? error : undefined;
    this.#post({
      type: "failed",
      code: known?.code ?? "internal",
      title: known?.title ?? "The page failed",
      detail: known?.detail ?? (error instanceof Error ? error.message : String(error)),
    });
  }
}
