import { createHash } from "node:crypto";
import type { Catalog, Document } from "../../../catalog/port.ts";
import type { EventLog, SessionRow } from "../../../log/port.ts";
import { DEFAULT_OWNER } from "../../auth.ts";
import { Shelf } from "../shelf.ts";
import { SYSTEM_OWNER } from "../signing-key.ts";

/** How far one endpoint has heard of one session. */
export interface Cursor {
  readonly session: string;
  /** Tells it from a later session of the same name. */
  readonly created_at: number;
  /** The last event that the endpoint has taken. */
  readonly after: number;
  /** When its session was found to be gone: what is left to tell is that. */
  readonly deleted_at: number | null;
  /** Whose session it is: where it was deleted, nothing else tells. Absent where a cursor is older than this field. */
  readonly workspace?: string;
}

type Place = Pick<SessionRow, "id" | "createdAt">;

const PAGE = 100;

/** The cursors of one endpoint: all that has to be remembered of what it was told. */
export class Cursors {
  readonly #catalog: Catalog;
  readonly #endpoint: string;
  readonly #shelf: Shelf<Cursor>;
  readonly #endpoints: Shelf<{ since: number; settled: boolean }>;

  constructor(catalog: Catalog, url: string) {
    this.#catalog = catalog;
    this.#endpoint = createHash("sha256").update(url).digest("hex").slice(0, 16);
    this.#shelf = new Shelf(catalog, "webhook_cursor");
    this.#endpoints = new Shelf(catalog, "webhook_endpoint");
  }

  find(session: string): Promise<Document<Cursor> | undefined> {
    return this.#shelf.find(SYSTEM_OWNER, this.#idOf(session));
  }

  async begin(row: Place, workspace: string): Promise<Document<Cursor>> {
    const creation = this.#creation(row, { after: 0, workspace });
    const [begun] = await this.#catalog.write(SYSTEM_OWNER, [creation]);
    return begun as Document<Cursor>;
  }

  /** The server's own where a session was made through another dialect. */
  async workspaceOf(session: string): Promise<string> {
    const [owner] = await this.#catalog.ownersOf("session", session);
    return owner ?? DEFAULT_OWNER;
  }

  async move(
    cursor: Document<Cursor>,
    change: Partial<Pick<Cursor, "after" | "deleted_at">>,
  ): Promise<Document<Cursor>> {
    const { kind, id, revision: expect, body } = cursor;
    const [moved] = await this.#catalog.write(SYSTEM_OWNER, [
      { op: "replace", kind, id, expect, body: { ...body, ...change } },
    ]);
    return moved as Document<Cursor>;
  }

  async remove({ kind, id }: Document<Cursor>): Promise<void> {
    await this.#catalog.write(SYSTEM_OWNER, [{ op: "remove", kind, id }]);
  }

  /** An endpoint that was never named before hears of what comes, and not of what was. */
  async settle(log: EventLog, now = Date.now()): Promise<void> {
    const [owner, id] = [SYSTEM_OWNER, this.#endpoint];
    const { kind } = this.#endpoints;
    if (!(await this.#endpoints.find(owner, id)))
      await this.#catalog.write(owner, [{ op: "create", kind, id, body: { since: now, settled: false } }]);
    const { body } = await this.#endpoints.get(owner, id);
    if (body.settled) return;
    for await (const { row, cursor } of this.#sessions(log))
      if (!cursor && row.createdAt < body.since)
        await this.#catalog.write(owner, [
          this.#creation(row, { after: row.head, workspace: await this.workspaceOf(row.id) }),
        ]);
    await this.#endpoints.update(owner, id, () => ({ replace: { body: { ...body, settled: true } } }));
  }

  /** The sessions of which there may be something to tell. */
  async *behind(log: EventLog): AsyncGenerator<string> {
    for await (const { row, cursor } of this.#sessions(log))
      if (!cursor || cursor.created_at !== row.createdAt || cursor.after < row.head) yield row.id;
    for (let after: number | undefined; ;) {
      const page = await this.#shelf.list(SYSTEM_OWNER, { parent: this.#endpoint, after, limit: PAGE });
      for (const { body } of page) if (!(await log.find(body.session))) yield body.session;
      after = page.at(-1)?.ordinal;
      if (page.length < PAGE) return;
    }
  }

  async *#sessions(log: EventLog): AsyncGenerator<{ row: SessionRow; cursor: Cursor | undefined }> {
    for (let before: number | undefined; ;) {
      const rows = await log.list({ limit: PAGE, ...(before !== undefined && { before }) });
      const ids = rows.map(({ id }) => this.#idOf(id));
      const found = rows.length > 0 ? await this.#shelf.list(SYSTEM_OWNER, { ids, limit: PAGE }) : [];
      const cursors = new Map(found.map(({ body }) => [body.session, body]));
      for (const row of rows) yield { row, cursor: cursors.get(row.id) };
      before = rows.at(-1)?.ordinal;
      if (rows.length < PAGE) return;
    }
  }

  #creation({ id: session, createdAt }: Place, { after, workspace }: { after: number; workspace: string }) {
    const body: Cursor = { session, created_at: createdAt, after, deleted_at: null, workspace };
    const { kind } = this.#shelf;
    return { op: "create", kind, id: this.#idOf(session), parent: this.#endpoint, body } as const;
  }

  #idOf(session: string): string {
    return `${this.#endpoint}:${session}`;
  }
}
