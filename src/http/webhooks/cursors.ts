import type { Catalog, Document } from "../../catalog/port.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { findTenant } from "../access/session-guard.ts";
import { DEFAULT_TENANT, SYSTEM_TENANT } from "../auth.ts";
import { Collection } from "../anthropic/collections.ts";
import { seekTime } from "../stream/cursor.ts";

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

const PAGE = 100;

/** The cursors of one endpoint. */
export class Cursors {
  readonly #catalog: Catalog;
  readonly #endpoint: string;
  readonly #collection: Collection<Cursor>;

  constructor(catalog: Catalog, endpoint: string) {
    this.#catalog = catalog;
    this.#endpoint = endpoint;
    this.#collection = new Collection(catalog, "webhook_cursor");
  }

  find(session: string): Promise<Document<Cursor> | undefined> {
    return this.#collection.find(SYSTEM_TENANT, this.#idOf(session));
  }

  begin(row: SessionRow, workspace: string, after: number): Promise<Document<Cursor>> {
    const { id: session, createdAt } = row;
    const body: Cursor = { session, created_at: createdAt, after, deleted_at: null, workspace };
    const document = { id: this.#idOf(session), parent: this.#endpoint, body };
    return this.#collection.create(SYSTEM_TENANT, document);
  }

  workspaceOf(row: Pick<SessionRow, "id" | "tenant">): Promise<string> {
    return findTenant(this.#catalog, row);
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

  /** The sessions with undelivered events, and deleted sessions that still have a cursor. */
  async *behind(
    log: EventLog,
    { since, tenant }: { since: number; tenant?: string },
  ): AsyncGenerator<string> {
    for await (const { row, cursor } of this.#sessions(log, tenant)) {
      const isKnown = cursor?.created_at === row.createdAt;
      if (isKnown ? cursor.after < row.head : row.updatedAt >= since) yield row.id;
    }
    for (let after: number | undefined; ;) {
      const page = await this.#collection.list(SYSTEM_TENANT, { parent: this.#endpoint, after, limit: PAGE });
      for (const { body } of page) if (!(await log.find(body.session))) yield body.session;
      after = page.at(-1)?.ordinal;
      if (page.length < PAGE) return;
    }
  }

  async *#sessions(
    log: EventLog,
    tenant: string | undefined,
  ): AsyncGenerator<{ row: SessionRow; cursor: Cursor | undefined }> {
    // Sessions of the default tenant may have no tenant in the log.
    const of = tenant === undefined || tenant === DEFAULT_TENANT ? {} : { tenant };
    for (let before: number | undefined; ;) {
      const rows = await log.list({ ...of, limit: PAGE, ...(before !== undefined && { before }) });
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

/** The first cursor of an endpoint in a session: the session is reported from the endpoint's registration on. */
export async function startOf(log: EventLog, row: SessionRow, since: number): Promise<number> {
  if (row.createdAt >= since) return 0;
  return row.updatedAt < since ? row.head : seekTime(log, row, since);
}
