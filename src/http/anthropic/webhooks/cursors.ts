import type { Catalog, Document } from "../../../catalog/port.ts";
import type { EventLog, SessionRow } from "../../../log/port.ts";
import { DEFAULT_TENANT, SYSTEM_TENANT } from "../../auth.ts";
import { sha256 } from "../../digest.ts";
import { Collection } from "../collections.ts";

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

  async begin(row: SessionKey, workspace: string): Promise<Document<Cursor>> {
    const creation = this.#creation(row, { after: 0, workspace });
    const [begun] = await this.#catalog.write(SYSTEM_TENANT, [creation]);
    return begun as Document<Cursor>;
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

  async remove({ kind, id }: Document<Cursor>): Promise<void> {
    await this.#catalog.write(SYSTEM_TENANT, [{ op: "remove", kind, id }]);
  }

  /** A new endpoint gets future events alone: existing sessions start at their head. */
  async settle(log: EventLog, now = Date.now()): Promise<void> {
    const [tenant, id] = [SYSTEM_TENANT, this.#endpoint];
    const { kind } = this.#endpoints;
    if (!(await this.#endpoints.find(tenant, id)))
      await this.#catalog.write(tenant, [{ op: "create", kind, id, body: { since: now, settled: false } }]);
    const { body } = await this.#endpoints.get(tenant, id);
    if (body.settled) return;
    for await (const { row, cursor } of this.#sessions(log))
      if (!cursor && row.createdAt < body.since)
        await this.#catalog.write(tenant, [
          this.#creation(row, { after: row.head, workspace: await this.workspaceOf(row.id) }),
        ]);
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

  #creation(
    { id: session, createdAt }: SessionKey,
    { after, workspace }: { after: number; workspace: string },
  ) {
    const body: Cursor = { session, created_at: createdAt, after, deleted_at: null, workspace };
    const { kind } = this.#collection;
    return { op: "create", kind, id: this.#idOf(session), parent: this.#endpoint, body } as const;
  }

  #idOf(session: string): string {
    return `${this.#endpoint}:${session}`;
  }
}
