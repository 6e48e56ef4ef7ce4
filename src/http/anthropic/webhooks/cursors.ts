import type { Catalog, Document } from "../../../catalog/port.ts";
import type { SluiceEvent } from "../../../contract/index.ts";
import { toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  toWebhookBody,
  toWebhookTypes,
  WEBHOOK_EVENTS,
  type WebhookType,
} from "../../../dialects/anthropic/webhook.ts";
import { type EventLog, readKept, type SessionRow } from "../../../log/port.ts";
import { DEFAULT_TENANT, SYSTEM_TENANT } from "../../auth.ts";
import { digestOf, sha256 } from "../../digest.ts";
import { Collection } from "../collections.ts";
import type { Endpoint } from "./delivery.ts";

const EVENTS_PAGE = 256;
/** How long the removal of a session may take after its event `session.deleted`. */
const REMOVAL_MS = 5_000;

/** Delivers the events after a cursor to one endpoint, and moves the cursor when they are accepted. */
export class CursorWalk {
  readonly #log: EventLog;
  readonly #cursors: Cursors;
  readonly #endpoint: Endpoint;
  readonly #signal: AbortSignal;

  constructor(options: { log: EventLog; cursors: Cursors; endpoint: Endpoint; signal: AbortSignal }) {
    this.#log = options.log;
    this.#cursors = options.cursors;
    this.#endpoint = options.endpoint;
    this.#signal = options.signal;
  }

  /** Delivers all new events of a session; false if the endpoint did not accept one. */
  async deliver(session: string): Promise<boolean> {
    let cursor = await this.#cursors.find(session);
    const row = await this.#log.find(session);
    if (cursor && cursor.body.created_at !== row?.createdAt) {
      if (!(await this.#reportDeleted(cursor))) return false;
      cursor = undefined;
    }
    if (!row) return true;
    if (!cursor) {
      const { createdAt } = row;
      const time = toTimestamp(createdAt);
      const workspace = await this.#cursors.workspaceOf(session);
      const report = { session, createdAt, sequence: 0, type: "session.created", time, workspace } as const;
      if (!(await this.#report(report))) return false;
      cursor = await this.#cursors.begin(row, workspace);
    }
    return this.#catchUp(cursor);
  }

  async #catchUp(from: Document<Cursor>): Promise<boolean> {
    const { session, created_at: createdAt } = from.body;
    let cursor = from;
    let { after } = cursor.body;
    const workspace = await this.#workspaceOf(cursor);
    for (;;) {
      const page = await this.#read(session, after);
      // The session was removed during the read.
      if (!page) return this.#reportDeleted(cursor);
      if (page.length === 0) return true;
      for (const event of page) {
        after = event.sequence;
        if (event.type === "session.deleted") {
          if (await this.#isRemoved(session, after)) return this.#reportDeleted(cursor);
          continue;
        }
        const types = toWebhookTypes(event);
        for (const type of types) {
          const { sequence, time } = event;
          if (!(await this.#report({ session, createdAt, sequence, type, time, workspace }))) return false;
        }
        if (types.length > 0) cursor = await this.#cursors.move(cursor, { after });
      }
    }
  }

  async #read(session: string, after: number): Promise<SluiceEvent[] | undefined> {
    try {
      const stored = await readKept(this.#log, session, { after, limit: EVENTS_PAGE, types: WEBHOOK_EVENTS });
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
    const cursor =
      found.body.deleted_at === null ? await this.#cursors.move(found, { deleted_at: Date.now() }) : found;
    const { session, created_at: createdAt, deleted_at } = cursor.body;
    const time = toTimestamp(deleted_at ?? 0);
    const workspace = await this.#workspaceOf(cursor);
    if (!(await this.#report({ session, createdAt, sequence: -1, type: "session.deleted", time, workspace })))
      return false;
    await this.#cursors.remove(cursor);
    return true;
  }

  async #workspaceOf({ body }: Document<Cursor>): Promise<string> {
    return body.workspace ?? this.#cursors.workspaceOf(body.session);
  }

  #report(report: Report): Promise<boolean> {
    const id = toWebhookId(report);
    return this.#endpoint.deliver({ id, body: toWebhookBody({ ...report, id }) });
  }
}

interface Report {
  readonly session: string;
  readonly createdAt: number;
  readonly sequence: number;
  readonly type: WebhookType;
  readonly time: string;
  readonly workspace: string;
}

/** Every server computes the same id for the same event, so a receiver can drop a repeated delivery. */
function toWebhookId({ session, createdAt, sequence, type }: Report): string {
  return `wevt_${digestOf(session, createdAt, sequence, type).slice(0, 32)}`;
}

/** The progress of one endpoint in one session. */
export interface Cursor {
  readonly session: string;
  /** The creation time of the session: a later one may have the same id. */
  readonly created_at: number;
  /** The last event that the endpoint has accepted. */
  readonly after: number;
  /** The time at which the session was found deleted; only the deletion is left to report. */
  readonly deleted_at: number | null;
  /** The tenant of the session, kept for the report of its deletion. Absent in older cursors. */
  readonly workspace?: string;
}

type SessionKey = Pick<SessionRow, "id" | "createdAt">;

const PAGE = 100;

/** The cursors of one endpoint. */
export class Cursors {
  readonly #catalog: Catalog;
  readonly #endpoint: string;
  readonly #collection: Collection<Cursor>;
  readonly #endpoints: Collection<{ since: number; settled: boolean }>;

  constructor(catalog: Catalog, url: string) {
    this.#catalog = catalog;
    this.#endpoint = sha256(url).slice(0, 16);
    this.#collection = new Collection(catalog, "webhook_cursor");
    this.#endpoints = new Collection(catalog, "webhook_endpoint");
  }

  find(session: string): Promise<Document<Cursor> | undefined> {
    return this.#collection.find(SYSTEM_TENANT, this.#idOf(session));
  }

  begin({ id: session, createdAt }: SessionKey, workspace: string, after = 0): Promise<Document<Cursor>> {
    const body: Cursor = { session, created_at: createdAt, after, deleted_at: null, workspace };
    const document = { id: this.#idOf(session), parent: this.#endpoint, body };
    return this.#collection.create(SYSTEM_TENANT, document);
  }

  /** The tenant of a session; the default tenant if another dialect created the session. */
  async workspaceOf(session: string): Promise<string> {
    const [tenant] = await this.#catalog.tenantsOf("session", session);
    return tenant ?? DEFAULT_TENANT;
  }

  async move(
    cursor: Document<Cursor>,
    change: Partial<Pick<Cursor, "after" | "deleted_at">>,
  ): Promise<Document<Cursor>> {
    const { kind, id, revision: expect, body } = cursor;
    const [moved] = await this.#catalog.write(SYSTEM_TENANT, [
      { op: "replace", kind, id, expect, body: { ...body, ...change } },
    ]);
    return moved as Document<Cursor>;
  }

  remove({ id }: Document<Cursor>): Promise<void> {
    return this.#collection.remove(SYSTEM_TENANT, id);
  }

  /** A new endpoint gets only future events: existing sessions start at their head. */
  async settle(log: EventLog, now = Date.now()): Promise<void> {
    const [tenant, id] = [SYSTEM_TENANT, this.#endpoint];
    if (!(await this.#endpoints.find(tenant, id)))
      await this.#endpoints.create(tenant, { id, body: { since: now, settled: false } });
    const { body } = await this.#endpoints.get(tenant, id);
    if (body.settled) return;
    for await (const { row, cursor } of this.#sessions(log))
      if (!cursor && row.createdAt < body.since)
        await this.begin(row, await this.workspaceOf(row.id), row.head);
    await this.#endpoints.update(tenant, id, () => ({ replace: { body: { ...body, settled: true } } }));
  }

  /** The sessions with undelivered events, and deleted sessions that still have a cursor. */
  async *behind(log: EventLog): AsyncGenerator<string> {
    for await (const { row, cursor } of this.#sessions(log))
      if (!cursor || cursor.created_at !== row.createdAt || cursor.after < row.head) yield row.id;
    for (let after: number | undefined; ;) {
      const page = await this.#collection.list(SYSTEM_TENANT, { parent: this.#endpoint, after, limit: PAGE });
      for (const { body } of page) if (!(await log.find(body.session))) yield body.session;
      after = page.at(-1)?.ordinal;
      if (page.length < PAGE) return;
    }
  }

  async *#sessions(log: EventLog): AsyncGenerator<{ row: SessionRow; cursor: Cursor | undefined }> {
    for (let before: number | undefined; ;) {
      const rows = await log.list({ limit: PAGE, ...(before !== undefined && { before }) });
      const ids = rows.map(({ id }) => this.#idOf(id));
      const found = rows.length > 0 ? await this.#collection.list(SYSTEM_TENANT, { ids, limit: PAGE }) : [];
      const cursors = new Map(found.map(({ body }) => [body.session, body]));
      for (const row of rows) yield { row, cursor: cursors.get(row.id) };
      before = rows.at(-1)?.ordinal;
      if (rows.length < PAGE) return;
    }
  }

  #idOf(session: string): string {
    return `${this.#endpoint}:${session}`;
  }
}
