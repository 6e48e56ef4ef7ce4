import { SluiceError } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { messageOf } from "../failure.ts";
import type { SessionDeps } from "../deps.ts";
import { Session } from "../session.ts";
import { claimSession, isFenced } from "./claim.ts";
import { FailedAppends } from "./failed-appends.ts";
import { notFound } from "../refusals.ts";

/** How many sessions with nothing running stay open for their next use. */
const RESTING_KEPT = 256;

/** The sessions that this process holds open. The first use opens a session; a failed append opens it again. */
export class OpenSessions {
  readonly failed: FailedAppends;
  readonly #deps: SessionDeps;
  readonly #live = new Map<string, Promise<Session>>();
  /** In order of use, the longest unused first: the first resting ones are dropped. */
  readonly #opened = new Set<Session>();
  /** Dropped sessions that still finish their work: the next opening waits for them. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #removing = new Set<string>();
  #isClosed = false;

  constructor(deps: SessionDeps) {
    this.#deps = deps;
    this.failed = new FailedAppends(deps.logger, (id) => this.open(id));
  }

  [Symbol.iterator](): Iterator<Session> {
    return [...this.#opened][Symbol.iterator]();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Runs the task with the session, and opens it first where it is not open. */
  async with<T>(id: string, task: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.open(id);
    try {
      return await task(session);
    } catch (error) {
      if (!session.isClosed || !wasNotTried(error) || this.#isClosed) throw error;
      return task(await this.open(id));
    } finally {
      this.#dropSurplus();
    }
  }

  /** As `with`, to terminate or remove the session. Works for a damaged session, too. */
  async withToEnd<T>(id: string, task: (session: Session) => Promise<T>, how: ToEnd): Promise<T> {
    if (how === "attached") {
      const attached = await this.open(id).catch((error: unknown) => {
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

  /** Runs the removal of a session. An opening meanwhile would create its files again, and is refused. */
  async removing(id: string, task: () => Promise<void>): Promise<void> {
    if (this.#removing.has(id)) throw notFound(id);
    this.#removing.add(id);
    try {
      await task();
    } finally {
      this.#removing.delete(id);
    }
  }

  /** Whether the session is open in this process, or waits to be opened again. */
  isKnown(id: string): boolean {
    return this.#live.has(id) || this.failed.has(id);
  }

  /** The session, if it is open in this process and no other process can have taken it over. */
  async held(id: string): Promise<Session | undefined> {
    const session = await this.#live.get(id)?.catch(() => undefined);
    return session?.isActive && !session.isClosed ? session : undefined;
  }

  async row(id: string): Promise<SessionRow> {
    const row = await this.#deps.log.find(id);
    if (row) return row;
    throw notFound(id);
  }

  open(id: string): Promise<Session> {
    if (!this.#deps.lease.isHeld) return Promise.reject(leaseUnsure());
    const known = this.#live.get(id);
    if (known) return known.then((session) => this.#used(session));
    if (this.#removing.has(id)) return Promise.reject(notFound(id));
    const opening = this.#openFresh(id, Session.open);
    this.#live.set(id, opening);
    opening.catch(() => {
      if (this.#live.get(id) === opening) this.#live.delete(id);
    });
    return opening;
  }

  /** Closes the session. Its processes run on. */
  drop(session: Session): void {
    this.failed.forget(session.id);
    this.#drop(session);
  }

  /** Closes all sessions. Their processes run on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.failed.close();
    const live = [...this.#live.values()];
    this.#live.clear();
    await Promise.allSettled(live.map(async (session) => (await session).close()));
    await Promise.all(this.#leaving.values());
    this.#opened.clear();
  }

  /** Opens a session again after a failed append, from its log. The log has no event of the failed batch. */
  #reopen(session: Session, error: unknown): void {
    const { id } = session;
    this.#deps.onAppendFailed();
    this.#drop(session);
    if (!this.#isClosed && !isFenced(error)) {
      this.failed.add({ id, head: session.info().eventCount }, error);
      return;
    }
    this.failed.forget(id);
    const message = "another process took the session over";
    if (!this.#isClosed) this.#deps.logger({ level: "warn", message, session: id });
  }

  #drop(session: Session): void {
    const { id } = session;
    this.#opened.delete(session);
    this.#live.delete(id);
    const closed = session.close().catch((error: unknown) => {
      const message = "a session could not be closed";
      this.#deps.logger({ level: "warn", message, session: id, error: messageOf(error) });
    });
    const left = Promise.allSettled([this.#leaving.get(id), closed]).then(() => {
      if (this.#leaving.get(id) === left) this.#leaving.delete(id);
    });
    this.#leaving.set(id, left);
  }

  /** Moves the session to the end of the order of use. */
  #used(session: Session): Session {
    if (this.#opened.delete(session)) this.#opened.add(session);
    return session;
  }

  async #openFresh(id: string, open: typeof Session.open): Promise<Session> {
    await this.#leaving.get(id);
    const session = await claimSession(this.#deps, id, (row) =>
      open(this.#deps, row, (given, error) => this.#reopen(given, error)),
    );
    this.#opened.add(session);
    return session;
  }

  /** Drops the longest resting sessions: a log of millions must not fill the memory. */
  #dropSurplus(): void {
    let surplus = this.#opened.size - RESTING_KEPT;
    if (surplus <= 0) return;
    for (const session of this.#opened) {
      if (surplus <= 0) return;
      if (session.isActive || session.isBusy) continue;
      surplus -= 1;
      this.drop(session);
    }
  }
}

/**
 * `attached` opens the session with its process, so that the last output gets into the log. `at once` skips that: the
 * log is about to be removed.
 */
type ToEnd = "attached" | "at once";

/** Whether the session belongs to another process, or does not exist. */
function isRefusal(error: unknown): boolean {
  return error instanceof SluiceError && ["session_not_found", "session_busy", "fenced"].includes(error.code);
}

/** The database does not answer, or this process was frozen: another node may run the session by now. */
function leaseUnsure(): SluiceError {
  const detail =
    "The server's lease on its sessions is not confirmed at the moment. Try again in a few seconds.";
  return new SluiceError("storage_unavailable", detail);
}

/** Whether the task appended no event, because the session was given up or taken over first. */
function wasNotTried(error: unknown): boolean {
  return isFenced(error) || (error instanceof SluiceError && error.code === "stream_error");
}
