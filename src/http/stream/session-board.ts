import type { SessionEntry, SessionFilter } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { matchesFilter } from "../../sessions/lifecycle/session-list.ts";
import type { Engine } from "../../sessions/port.ts";
import type { Logger } from "../context.ts";
import { sse } from "./sse.ts";
import type { Sink } from "./sink.ts";

/** The delay of a change after a quiet time, and the least time between two flushes. */
const SETTLE_MS = 20;
const FLUSH_MS = 250;
const LOOK_MS = 1_000;
const PAGE = 500;
/** How many frames a reader gets in one write. */
const FRAMES = 100;

export interface Listed {
  readonly row: Pick<SessionRow, "id" | "ordinal" | "tenant" | "head">;
  readonly entry: SessionEntry;
  /** The frame of the entry, made once for all readers. */
  readonly frame: string;
}

/**
 * All sessions as the live list shows them, shared by all readers of the list. It is kept while there is a reader. The
 * log tells which session has changed, so that idle sessions and readers cost nothing.
 */
export class SessionBoard {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #listed = new Map<string, Listed>();
  readonly #readers = new Set<ListReader>();
  readonly #changed = new Set<string>();
  #loading: Promise<void> | undefined;
  #unobserve: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;
  #flushedAt = 0;
  /** Whether another process has written since the last look at all sessions. */
  #hasForeignWrites = false;
  #nextLook = 0;

  constructor(engine: Engine, logger: Logger) {
    this.#engine = engine;
    this.#logger = logger;
  }

  /** The number of readers. */
  get readers(): number {
    return this.#readers.size;
  }

  get(session: string): Listed | undefined {
    return this.#listed.get(session);
  }

  /** The ids of all sessions, newest first. */
  ids(): string[] {
    const listed = [...this.#listed.values()].sort((a, b) => b.row.ordinal - a.row.ordinal);
    return listed.map(({ row }) => row.id);
  }

  /** Adds a reader after the list is loaded. The returned function removes it. */
  async join(reader: ListReader): Promise<() => void> {
    this.#readers.add(reader);
    this.#unobserve ??= this.#engine.log.observe((session) => this.#note(session));
    const leave = (): void => this.#leave(reader);
    try {
      await (this.#loading ??= this.#load());
    } catch (error) {
      leave();
      throw error;
    }
    return leave;
  }

  #leave(reader: ListReader): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return;
    this.#unobserve?.();
    clearTimeout(this.#timer);
    this.#unobserve = this.#loading = this.#timer = undefined;
    this.#listed.clear();
    this.#changed.clear();
  }

  async #load(): Promise<void> {
    for (let before: number | undefined; ;) {
      const rows = await this.#engine.log.list({ limit: PAGE, ...(before !== undefined && { before }) });
      for (const { id } of rows) await this.#update(id);
      if (rows.length < PAGE) return;
      before = rows.at(-1)?.ordinal;
    }
  }

  #note(session: string | undefined): void {
    if (session === undefined) this.#hasForeignWrites = true;
    else this.#changed.add(session);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer || this.#flushing || this.#readers.size === 0) return;
    if (this.#changed.size === 0 && !this.#hasForeignWrites) return;
    const now = performance.now();
    const due =
      this.#changed.size > 0
        ? this.#flushedAt + FLUSH_MS
        : Math.max(this.#nextLook, this.#flushedAt + FLUSH_MS);
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#flushing = this.#flush()
          .catch((error: unknown) =>
            this.#logger({ level: "warn", message: "The list of sessions is behind", error: String(error) }),
          )
          .finally(() => {
            this.#flushing = undefined;
            this.#flushedAt = performance.now();
            this.#schedule();
          });
      },
      Math.max(SETTLE_MS, due - now),
    );
    this.#timer.unref();
  }

  async #flush(): Promise<void> {
    await this.#loading;
    if (this.#hasForeignWrites && performance.now() >= this.#nextLook) await this.#lookAround();
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const session of changed) {
      if (!(await this.#update(session))) continue;
      for (const reader of this.#readers) reader.note(session);
    }
  }

  /** Finds the sessions that another process has changed. The pause after a look is ten times as long as the look. */
  async #lookAround(): Promise<void> {
    const began = performance.now();
    this.#hasForeignWrites = false;
    const gone = new Set(this.#listed.keys());
    for (let before: number | undefined; ;) {
      const rows = await this.#engine.log.list({ limit: PAGE, ...(before !== undefined && { before }) });
      for (const { id, ordinal, head } of rows) {
        gone.delete(id);
        const known = this.#listed.get(id)?.row;
        if (known?.ordinal !== ordinal || known.head !== head) this.#changed.add(id);
      }
      if (rows.length < PAGE) break;
      before = rows.at(-1)?.ordinal;
    }
    for (const id of gone) this.#changed.add(id);
    this.#nextLook = performance.now() + Math.max(LOOK_MS, 10 * (performance.now() - began));
  }

  /** Updates the entry of a session, and returns whether it changed. An unreadable session keeps its entry. */
  async #update(session: string): Promise<boolean> {
    const found = await this.#engine.entry(session).catch(() => this.#listed.get(session));
    if (this.#readers.size === 0) return false;
    if (!found) return this.#listed.delete(session);
    const { entry, row } = found;
    const frame = toFrame("session", entry);
    if (this.#listed.get(session)?.frame === frame && this.#listed.get(session)?.row.ordinal === row.ordinal)
      return false;
    const { id, ordinal, head, tenant } = row;
    this.#listed.set(session, {
      row: { id, ordinal, head, ...(tenant !== undefined && { tenant }) },
      entry,
      frame,
    });
    return true;
  }
}

export interface ListView extends SessionFilter {
  /** Whether the reader may know the session. */
  isOwn(row: Pick<SessionRow, "id" | "ordinal" | "tenant">): boolean | Promise<boolean>;
}

/** One reader of the list: the set of sessions that it has to be told about. It has no queue of frames. */
export class ListReader {
  readonly #board: SessionBoard;
  readonly #view: ListView;
  readonly #pending = new Set<string>();
  /** The sessions that the reader has, by id and ordinal. */
  readonly #told = new Map<string, number>();
  #wake: () => void = () => {};
  #isReady = false;

  constructor(board: SessionBoard, view: ListView) {
    this.#board = board;
    this.#view = view;
  }

  note(session: string): void {
    this.#pending.add(session);
    this.#wake();
  }

  /** Writes the list and then its changes, until the sink is closed. A reader that does not drain waits. */
  async pump(sink: Sink): Promise<void> {
    sink.onClose(() => this.#wake());
    const leave = await this.#board.join(this);
    sink.onClose(leave);
    if (sink.closed) return leave();
    for (const id of this.#board.ids()) this.#pending.add(id);
    while (!sink.closed) {
      const text = await this.#next();
      if (text !== "" && !sink.closed && !sink.write(text)) await sink.drained();
      if (this.#pending.size > 0 || sink.closed) continue;
      if (!this.#isReady) {
        this.#isReady = true;
        sink.write(toFrame("ready", { count: this.#told.size }));
      } else {
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    }
  }

  async #next(): Promise<string> {
    let text = "";
    let frames = 0;
    for (const id of this.#pending) {
      if (frames === FRAMES) break;
      this.#pending.delete(id);
      const frame = await this.#toFrame(id);
      if (frame === undefined) continue;
      text += frame;
      frames += 1;
    }
    return text;
  }

  async #toFrame(id: string): Promise<string | undefined> {
    const listed = this.#board.get(id);
    // Another session of the same id may be somebody else's: for this reader, the id is gone.
    const isOwn = listed !== undefined && (await this.#view.isOwn(listed.row));
    if (isOwn && matchesFilter(listed.entry, this.#view)) {
      this.#told.set(id, listed.row.ordinal);
      return listed.frame;
    }
    if (!this.#told.delete(id)) return undefined;
    return toFrame("removed", { sessionId: id, reason: isOwn ? "filtered" : "deleted" });
  }
}

function toFrame(event: string, data: unknown): string {
  return sse.frame({ event, data: JSON.stringify(data) }, undefined);
}
