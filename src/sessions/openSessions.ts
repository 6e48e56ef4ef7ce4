import { SluiceError } from "../contract/index.ts";
import type { SessionRow } from "../log/port.ts";
import type { SessionDeps } from "./deps.ts";
import { Session } from "./session.ts";

/** How many sessions without anything running are kept open, in case they are spoken to again. */
const RESTING_KEPT = 256;
/** How often a session that others open at the same moment is tried for. */
const CLAIMS = 5;
/** Each recovery reads files and may start programs. */
const RECOVERED_AT_ONCE = 8;
const REOPEN_FIRST_MS = 250;
const REOPEN_LAST_MS = 15_000;

/** The sessions that this process holds open: opened when they are spoken to, and again after a failure. */
export class OpenSessions {
  readonly #deps: SessionDeps;
  readonly #live = new Map<string, Promise<Session>>();
  /** In order of use, the longest unused first: resting ones are let go from there. */
  readonly #opened = new Set<Session>();
  /** Those that were dropped and are not at rest yet: nobody else is to speak for them before. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #removing = new Set<string>();
  readonly #reopening = new Map<string, NodeJS.Timeout>();
  /** Where the log stood when a session was last given up, and how long it was then left alone. */
  readonly #failures = new Map<string, { readonly head: number; readonly delay: number }>();
  /** Those of an earlier life that the first recovery has not come to yet. */
  readonly #expected = new Set<string>();
  #closed = false;

  constructor(deps: SessionDeps) {
    this.#deps = deps;
  }

  [Symbol.iterator](): Iterator<Session> {
    return [...this.#opened][Symbol.iterator]();
  }

  /** The task with the session, opened for it if need be. */
  async with<T>(id: string, task: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.#open(id);
    try {
      return await task(session);
    } catch (error) {
      if (!session.isClosed || !wasNotTried(error) || this.#closed) throw error;
      return task(await this.#open(id));
    } finally {
      this.#rest();
    }
  }

  /** The same to terminate or remove it, which has to be possible whatever is wrong with it. */
  async withToEnd<T>(id: string, task: (session: Session) => Promise<T>, how: ToEnd): Promise<T> {
    if (how === "attached") {
      const attached = await this.#open(id).catch((error: unknown) => {
        if (isRefusal(error)) throw error;
      });
      if (attached) return this.with(id, task);
    }
    if (this.#live.has(id)) return this.with(id, task);
    const opening = this.#openFresh(id, Session.openToEnd);
    this.#live.set(id, opening);
    try {
      return await task(await opening);
    } finally {
      if (this.#live.get(id) === opening) this.#live.delete(id);
      const session = await opening.catch(() => undefined);
      if (session) this.#opened.delete(session);
      await session?.close();
    }
  }

  /** Runs the removal of a session. Nobody opens it meanwhile: what it had would be made again. */
  async removing(id: string, task: () => Promise<void>): Promise<void> {
    if (this.#removing.has(id)) throw notFound(id);
    this.#removing.add(id);
    try {
      await task();
    } finally {
      this.#removing.delete(id);
    }
  }

  /** The session, where it is open here and no other process can have taken it over. */
  async held(id: string): Promise<Session | undefined> {
    const session = await this.#live.get(id)?.catch(() => undefined);
    return session?.isActive && !session.isClosed ? session : undefined;
  }

  async row(id: string): Promise<SessionRow> {
    const row = await this.#deps.log.find(id);
    if (row) return row;
    throw notFound(id);
  }

  /** Notes which sessions the first recovery is going to pick up. */
  async expectRecovery(): Promise<void> {
    for (const { id } of await this.#abandoned()) this.#expected.add(id);
  }

  /** Where the session is still to be picked up: picks it up now, before its turn. A failure is told by the first use. */
  async recovery(id: string): Promise<void> {
    if (this.#expected.has(id)) await this.#recoverOne(id);
  }

  /** Picks up every session that was left active by an owner that is no more. */
  async recover(): Promise<void> {
    const left = (await this.#abandoned()).map(({ id }) => id);
    const recoverNext = async (): Promise<void> => {
      for (let id = left.shift(); id !== undefined && !this.#closed; id = left.shift())
        await this.#recoverOne(id);
    };
    await Promise.all(Array.from({ length: RECOVERED_AT_ONCE }, recoverNext));
  }

  async #recoverOne(id: string): Promise<void> {
    await this.#open(id)
      .catch((error: unknown) => {
        if (!isNotFound(error)) this.#reopenLater(id, error, REOPEN_FIRST_MS);
      })
      .finally(() => this.#expected.delete(id));
  }

  async #abandoned(): Promise<SessionRow[]> {
    const rows = await this.#deps.log.active();
    return rows.filter((row) => !this.#live.has(row.id) && !this.#reopening.has(row.id) && this.#isFree(row));
  }

  /** The sessions whose readers were told that they are gone, by an owner that came no further. */
  async halfDeleted(): Promise<string[]> {
    const found: string[] = [];
    for (const row of await this.#deps.log.active()) {
      if (!this.#isFree(row)) continue;
      const [last] = await this.#deps.log.read(row.id, { after: row.head - 1, limit: 1 }).catch(() => []);
      if (last?.type === "session.deleted") found.push(row.id);
    }
    return found;
  }

  /** The deleted sessions that are kept for readers of ours, or of an owner that is no more. */
  async retired(): Promise<SessionRow[]> {
    return (await this.#deps.log.retired()).filter((row) => this.#isFree(row));
  }

  /** Lets go of it, and ends nothing. It is opened again once the old object is at rest. */
  drop(session: Session): void {
    const { id } = session;
    this.#opened.delete(session);
    this.#live.delete(id);
    this.#failures.delete(id);
    const closed = session.close().catch((error: unknown) => {
      const message = "a session could not be let go of";
      this.#deps.logger({ level: "warn", message, session: id, error: String(error) });
    });
    const left = Promise.allSettled([this.#leaving.get(id), closed]).then(() => {
      if (this.#leaving.get(id) === left) this.#leaving.delete(id);
    });
    this.#leaving.set(id, left);
  }

  /** An append failed: the session is opened again from its log, where nothing of the failed batch is. */
  reopen(session: Session, error: unknown): void {
    const last = this.#failures.get(session.id);
    this.drop(session);
    if (this.#closed) return;
    if (isFenced(error)) {
      const message = "another process took the session over";
      this.#deps.logger({ level: "warn", message, session: session.id });
      return;
    }
    const head = session.info().eventCount;
    // One that has not come any further since is left alone for longer each time, as on a full disk.
    const delay = last?.head === head ? toLonger(last.delay) : REOPEN_FIRST_MS;
    this.#failures.set(session.id, { head, delay });
    this.#reopenLater(session.id, error, delay);
  }

  /** Lets go of all of them, and ends nothing. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#reopening.values()) clearTimeout(timer);
    const live = [...this.#live.values()];
    this.#live.clear();
    await Promise.allSettled(live.map(async (session) => (await session).close()));
    await Promise.all(this.#leaving.values());
    this.#opened.clear();
  }

  #open(id: string): Promise<Session> {
    const known = this.#live.get(id);
    if (known) {
      return known.then((session) => this.#used(session));
    }
    if (this.#removing.has(id)) return Promise.reject(notFound(id));
    const opening = this.#openFresh(id);
    this.#live.set(id, opening);
    opening.catch(() => {
      if (this.#live.get(id) === opening) this.#live.delete(id);
    });
    return opening;
  }

  /** The last of those that are let go. */
  #used(session: Session): Session {
    if (this.#opened.delete(session)) this.#opened.add(session);
    return session;
  }

  async #openFresh(id: string, open: typeof Session.open = Session.open): Promise<Session> {
    await this.#leaving.get(id);
    for (let tries = CLAIMS; ; tries -= 1) {
      try {
        return await this.#claim(id, open);
      } catch (error) {
        // Another server was quicker; whether it has begun something says its row.
        if (tries === 1 || !isFenced(error)) throw error;
      }
    }
  }

  async #claim(id: string, open: typeof Session.open): Promise<Session> {
    const row = await this.row(id);
    if (row.active && !this.#isFree(row)) {
      throw new SluiceError(
        "session_busy",
        `session ${id} is being run by process ${row.owner.split("@")[0]}; wait until it ends, or speak to it there`,
      );
    }
    const session = await open(this.#deps, row);
    this.#opened.add(session);
    return session;
  }

  /** Whether nobody else lives who owns it. */
  #isFree(row: SessionRow): boolean {
    return this.#deps.ourselves.isFree(row.owner);
  }

  /** Lets go of the longest resting sessions; a log of millions must not fill the memory. */
  #rest(): void {
    let surplus = this.#opened.size - RESTING_KEPT;
    if (surplus <= 0) return;
    for (const session of this.#opened) {
      if (surplus <= 0) return;
      if (session.isActive || session.isBusy) continue;
      surplus -= 1;
      this.drop(session);
    }
  }

  #reopenLater(id: string, error: unknown, delay: number): void {
    this.#deps.logger({
      level: "error",
      message: "the session will be reopened",
      session: id,
      error: error instanceof Error ? error.message : String(error),
    });
    if (this.#closed || this.#reopening.has(id)) return;
    const timer = setTimeout(() => {
      this.#reopening.delete(id);
      this.#open(id).catch((again: unknown) => {
        if (isNotFound(again)) return;
        this.#reopenLater(id, again, toLonger(delay));
      });
    }, delay);
    this.#reopening.set(id, timer);
  }
}

/** Attached first, so that the last output is in the log; or at once, where that goes too. */
export type ToEnd = "attached" | "at once";

/** Not ours to end, or not there. */
function isRefusal(error: unknown): boolean {
  return error instanceof SluiceError && ["session_not_found", "session_busy", "fenced"].includes(error.code);
}

function notFound(id: string): SluiceError {
  return new SluiceError("session_not_found", `there is no session ${id}; GET /v1/sessions lists them`);
}

function isNotFound(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "session_not_found";
}

function toLonger(delay: number): number {
  return Math.min(delay * 2, REOPEN_LAST_MS);
}

/** Given up by somebody else's failure while we waited, or taken over while it rested: nothing of ours was appended. */
function wasNotTried(error: unknown): boolean {
  return isFenced(error) || (error instanceof SluiceError && error.code === "stream_error");
}

function isFenced(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "fenced";
}
