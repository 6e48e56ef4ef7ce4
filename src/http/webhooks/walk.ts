import type { Document } from "../../catalog/port.ts";
import type { EventType, SluiceEvent } from "../../contract/index.ts";
import { type EventLog, readKept, type SessionRow } from "../../log/port.ts";
import { type Cursor, type Cursors, startOf } from "./cursors.ts";
import type { Endpoint, Message } from "./delivery.ts";

const EVENTS_PAGE = 256;
/** How long the removal of a session may take after its event `session.deleted`. */
const REMOVAL_MS = 5_000;

/** Whether this server reports a session with this owner; without an owner, one that was removed. */
export type Reports = (owner: string | undefined) => boolean;

/** The selection of events for an endpoint, and their messages. The same event always gives the same message. */
export interface Reporter {
  /** The types of events that may cause a message. */
  readonly events: ReadonlySet<string>;
  /** The only tenant that the endpoint gets reports of; all tenants if absent. */
  readonly tenant?: string;
  /** The only session that the endpoint gets reports of; all sessions if absent. */
  readonly session?: string;
  /** Whether the endpoint gets reports of this session at all. */
  admits(row: SessionRow, workspace: string): Promise<boolean>;
  toMessages(event: SluiceEvent, about: { row: SessionRow; workspace: string }): Promise<readonly Message[]>;
  /** The reports of a session's creation and deletion, if the endpoint gets them. */
  readonly lifecycle?: {
    created(row: SessionRow, workspace: string): Message;
    deleted(cursor: Cursor, workspace: string): Message;
  };
}

/** Delivers the events after a cursor to one endpoint, and moves the cursor when they are accepted. */
export class CursorWalk {
  readonly #log: EventLog;
  readonly #cursors: Cursors;
  readonly #endpoint: Endpoint;
  readonly #reporter: Reporter;
  readonly #since: () => number;
  readonly #signal: AbortSignal;
  readonly #reports: Reports;

  constructor(options: {
    log: EventLog;
    cursors: Cursors;
    endpoint: Endpoint;
    reporter: Reporter;
    /** The time of the endpoint's registration. */
    since: () => number;
    signal: AbortSignal;
    reports: Reports | undefined;
  }) {
    this.#log = options.log;
    this.#cursors = options.cursors;
    this.#endpoint = options.endpoint;
    this.#reporter = options.reporter;
    this.#since = options.since;
    this.#signal = options.signal;
    this.#reports = options.reports ?? (() => true);
  }

  /**
   * Delivers all new events of a session; false if the endpoint did not accept one. `isOurs` says that this server has
   * written to it.
   */
  async deliver(session: string, { isOurs }: { isOurs: boolean }): Promise<boolean> {
    let cursor = await this.#cursors.find(session);
    const row = await this.#log.find(session);
    if (!(isOurs && !row) && !this.#reports(row?.owner)) return true;
    if (cursor && cursor.body.created_at !== row?.createdAt) {
      if (!(await this.#reportDeleted(cursor))) return false;
      cursor = undefined;
    }
    if (!row) return true;
    const workspace = cursor?.body.workspace ?? (await this.#cursors.workspaceOf(row));
    if (!(await this.#reporter.admits(row, workspace))) return true;
    const { lifecycle } = this.#reporter;
    const after = cursor?.body.after ?? (await startOf(this.#log, row, this.#since()));
    if (!cursor && lifecycle && row.createdAt >= this.#since()) {
      if (!(await this.#endpoint.deliver(lifecycle.created(row, workspace)))) return false;
      cursor = await this.#cursors.begin(row, workspace, 0);
    }
    return this.#catchUp({ row, workspace, after, cursor });
  }

  async #catchUp(start: Position): Promise<boolean> {
    const { row, workspace } = start;
    let { cursor, after } = start;
    const moveTo = async (sequence: number): Promise<void> => {
      cursor = cursor
        ? await this.#cursors.move(cursor, { after: sequence })
        : await this.#cursors.begin(row, workspace, sequence);
    };
    for (;;) {
      const page = await this.#read(row.id, after);
      // The session was removed during the read.
      if (!page) return cursor ? this.#reportDeleted(cursor) : true;
      for (const event of page) {
        after = event.sequence;
        if (event.type === "session.deleted") {
          if (await this.#isRemoved(row.id, after)) return cursor ? this.#reportDeleted(cursor) : true;
          continue;
        }
        const messages = await this.#reporter.toMessages(event, { row, workspace });
        for (const message of messages) if (!(await this.#endpoint.deliver(message))) return false;
        if (messages.length > 0) await moveTo(after);
      }
      if (page.length > 0) continue;
      // The next start need not read a resting session again.
      if (!row.active && row.head > (cursor?.body.after ?? 0)) await moveTo(row.head);
      return true;
    }
  }

  async #read(session: string, after: number): Promise<SluiceEvent[] | undefined> {
    try {
      const types = this.#reporter.events as ReadonlySet<EventType>;
      const stored = await readKept(this.#log, session, { after, limit: EVENTS_PAGE, types });
      return stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
    } catch (error) {
      if (await this.#log.find(session)) throw error;
      return undefined;
    }
  }

  async #isRemoved(session: string, after: number): Promise<boolean> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(REMOVAL_MS)]);
    await this.#log.moved(session, after, { signal }).catch(() => {});
    return (await this.#log.find(session)) === undefined;
  }

  /** Reports a deletion from the cursor: the log no longer has the session. */
  async #reportDeleted(found: Document<Cursor>): Promise<boolean> {
    const { lifecycle } = this.#reporter;
    if (lifecycle) {
      const cursor =
        found.body.deleted_at === null ? await this.#cursors.move(found, { deleted_at: Date.now() }) : found;
      const workspace =
        cursor.body.workspace ?? (await this.#cursors.workspaceOf({ id: cursor.body.session }));
      if (!(await this.#endpoint.deliver(lifecycle.deleted(cursor.body, workspace)))) return false;
    }
    await this.#cursors.remove(found);
    return true;
  }
}

interface Position {
  readonly row: SessionRow;
  readonly workspace: string;
  readonly after: number;
  readonly cursor: Document<Cursor> | undefined;
}
