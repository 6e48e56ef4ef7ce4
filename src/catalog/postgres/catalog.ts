import { Connections, type Query, type Row } from "../../postgres/connections.ts";
import { migrate } from "../../postgres/migrations.ts";
import { decrypt, encrypt } from "../encryption.ts";
import type {
  Catalog,
  Change,
  CreateDocument,
  Document,
  ListQuery,
  RemoveDocument,
  ReplaceDocument,
} from "../port.ts";
import { readDocument, toDocument } from "../document-row.ts";
import { documentExists, documentNotFound, keyTaken, revisionMoved } from "../refusals.ts";
import { TableBytes } from "./bytes.ts";
import { agreeOnKey } from "./key-check.ts";
import { toListStatement } from "./listing.ts";
import { CATALOG_TABLES } from "./schema.ts";

export interface PostgresCatalogOptions {
  /** `postgres://user:password@host:5432/name`; may lead to a pooler in transaction mode. */
  readonly url: string;
  /** All nodes have the same keys. The first one encrypts secrets, the others decrypt older ones. */
  readonly keys: readonly Uint8Array[];
  readonly now?: () => number;
}

const CONNECTIONS = 4;
/** Longer than that of the log: the start of an agent reads the catalog, and a failed start fails the turn. */
const PATIENCE_MS = 30_000;

/** A catalog in a PostgreSQL database, which several nodes may share. Creates its tables. */
export async function createPostgresCatalog(options: PostgresCatalogOptions): Promise<Catalog> {
  const { url } = options;
  const database = await Connections.create({ url, max: CONNECTIONS, patienceMs: PATIENCE_MS });
  try {
    await migrate(database, CATALOG_TABLES);
    const key = await agreeOnKey(database, options.keys);
    const catalog = new PostgresCatalog(database, key, options.now ?? Date.now);
    await catalog.bytes.removeForgotten();
    return catalog;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Documents in PostgreSQL. Changes of one tenant and kind are stored one after the other. */
class PostgresCatalog implements Catalog {
  readonly bytes: TableBytes;
  readonly #database: Connections;
  readonly #key: Uint8Array;
  readonly #now: () => number;

  constructor(database: Connections, key: Uint8Array, now: () => number) {
    this.#database = database;
    this.#key = key;
    this.#now = now;
    this.bytes = new TableBytes(database, now);
  }

  async write(tenant: string, changes: readonly Change[]): Promise<Document[]> {
    const written = await this.#database.transact(async (query) => {
      const kinds = [...new Set(changes.map(({ kind }) => kind))].toSorted();
      // Ordinals and times grow in the order of the commits, and two creations of one id meet here.
      for (const kind of kinds)
        await query("SELECT pg_advisory_xact_lock(hashtextextended($1, 53))", [
          JSON.stringify([tenant, kind]),
        ]);
      const documents: Document[] = [];
      for (const change of changes) {
        if (change.op === "remove") await this.#remove(query, tenant, change);
        else documents.push(await this.#put(query, tenant, change));
      }
      return documents;
    });
    await this.bytes.settle();
    return written;
  }

  async find(tenant: string, kind: string, id: string): Promise<Document | undefined> {
    const [row] = await this.#database.query(FIND, [tenant, kind, id]);
    return row && toDocument(row);
  }

  async tenantsOf(kind: string, id: string): Promise<string[]> {
    const rows = await this.#database.query(
      "SELECT tenant FROM sluice.documents WHERE kind = $1 AND id = $2 ORDER BY tenant",
      [kind, id],
    );
    return rows.map((row) => String(row["tenant"]));
  }

  /** Damaged documents are left out, so that one of them does not hide the others. */
  async list(tenant: string, query: ListQuery): Promise<Document[]> {
    const found: Document[] = [];
    for (let { after } = query; ;) {
      const limit = query.limit - found.length;
      const { statement, parameters } = toListStatement(tenant, { ...query, limit, after });
      const rows = await this.#database.query(statement, parameters);
      found.push(...rows.flatMap((row) => readDocument(row) ?? []));
      if (rows.length < limit || found.length === query.limit) return found;
      after = Number(rows.at(-1)?.["ordinal"]);
    }
  }

  async openSecret(tenant: string, kind: string, id: string): Promise<string | undefined> {
    const [row] = await this.#database.query(
      `SELECT s.encrypted FROM sluice.secrets s JOIN sluice.documents d ON d.ordinal = s.document
       WHERE d.tenant = $1 AND d.kind = $2 AND d.id = $3`,
      [tenant, kind, id],
    );
    return row && decrypt(this.#key, String(row["encrypted"]), { tenant, kind, id });
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  async #put(query: Query, tenant: string, change: CreateDocument | ReplaceDocument): Promise<Document> {
    const { kind, id, labels, secret, bytes } = change;
    const ordinal =
      change.op === "create"
        ? await this.#create(query, tenant, change)
        : await this.#replace(query, tenant, change);
    if (labels) {
      await query("DELETE FROM sluice.labels WHERE document = $1::bigint", [ordinal]);
      for (const [name, value] of Object.entries(labels))
        await query("INSERT INTO sluice.labels VALUES ($1, $2, $3, $4, $5::bigint)", [
          tenant,
          kind,
          name,
          value,
          ordinal,
        ]);
    }
    if (secret === null) await query(DROP_SECRET, [ordinal]);
    else if (secret !== undefined)
      await query(
        `INSERT INTO sluice.secrets VALUES ($1::bigint, $2)
         ON CONFLICT (document) DO UPDATE SET encrypted = excluded.encrypted`,
        [ordinal, encrypt(this.#key, secret, { tenant, kind, id })],
      );
    if (bytes) await this.bytes.use(query, ordinal, bytes);
    return toDocument(await mustFind(query, tenant, kind, id));
  }

  async #create(query: Query, tenant: string, change: CreateDocument): Promise<number> {
    const { kind, id, parent, archived, uniqueKey, labels, bytesUntil, body } = change;
    if ((await query(FIND, [tenant, kind, id])).length > 0) throw documentExists(kind, id);
    await assertFree(query, tenant, kind, uniqueKey);
    const [added] = await query(
      `INSERT INTO sluice.documents (tenant, kind, id, parent, revision, created_at, updated_at, archived, unique_key,
         labels, bytes_until, body)
       SELECT $1, $2, $3, $4, 1, time, time, $5::int = 1, $6, $7, $8::bigint, $9
       FROM (SELECT greatest($10::bigint, (SELECT max(created_at) FROM sluice.documents
         WHERE tenant = $1 AND kind = $2)) AS time) t RETURNING ordinal`,
      [
        tenant,
        kind,
        id,
        parent ?? null,
        Number(archived ?? false),
        uniqueKey ?? null,
        JSON.stringify(labels ?? {}),
        bytesUntil ?? null,
        JSON.stringify(body),
        this.#now(),
      ],
    );
    return Number(added?.["ordinal"]);
  }

  async #replace(query: Query, tenant: string, change: ReplaceDocument): Promise<number> {
    const { kind, id, expect, archived, uniqueKey, labels, bytesUntil, body } = change;
    const row = await mustFind(query, tenant, kind, id);
    const [ordinal, revision] = [Number(row["ordinal"]), Number(row["revision"])];
    if (revision !== expect) throw revisionMoved(kind, id, expect, revision);
    await assertFree(query, tenant, kind, uniqueKey, ordinal);
    await query(
      `UPDATE sluice.documents SET revision = revision + 1, updated_at = greatest(updated_at, $1::bigint),
         archived = $2::int = 1, unique_key = $3, labels = $4, bytes_until = $5::bigint, body = $6
       WHERE ordinal = $7::bigint`,
      [
        this.#now(),
        Number(archived ?? row["archived"] === true),
        uniqueKey === undefined ? kept(row["unique_key"]) : uniqueKey,
        labels ? JSON.stringify(labels) : String(row["labels"]),
        bytesUntil === undefined ? kept(row["bytes_until"]) : bytesUntil,
        JSON.stringify(body),
        ordinal,
      ],
    );
    return ordinal;
  }

  async #remove(query: Query, tenant: string, { kind, id, children }: RemoveDocument): Promise<void> {
    const rows = [await mustFind(query, tenant, kind, id)];
    if (children)
      rows.push(
        ...(await query("SELECT * FROM sluice.documents WHERE tenant = $1 AND parent = $2", [tenant, id])),
      );
    for (const row of rows) {
      const ordinal = Number(row["ordinal"]);
      await query("DELETE FROM sluice.labels WHERE document = $1::bigint", [ordinal]);
      await query(DROP_SECRET, [ordinal]);
      await this.bytes.use(query, ordinal, []);
      await query("DELETE FROM sluice.documents WHERE ordinal = $1::bigint", [ordinal]);
    }
  }
}

const FIND = "SELECT * FROM sluice.documents WHERE tenant = $1 AND kind = $2 AND id = $3";
const DROP_SECRET = "DELETE FROM sluice.secrets WHERE document = $1::bigint";

function kept(value: unknown): string | null {
  return value === null ? null : String(value);
}

async function assertFree(
  query: Query,
  tenant: string,
  kind: string,
  uniqueKey: string | null | undefined,
  ordinal?: number,
): Promise<void> {
  if (uniqueKey === undefined || uniqueKey === null) return;
  const [holder] = await query(
    "SELECT ordinal FROM sluice.documents WHERE tenant = $1 AND kind = $2 AND unique_key = $3",
    [tenant, kind, uniqueKey],
  );
  if (holder && Number(holder["ordinal"]) !== ordinal) throw keyTaken(kind, uniqueKey);
}

async function mustFind(query: Query, tenant: string, kind: string, id: string): Promise<Row> {
  const [row] = await query(FIND, [tenant, kind, id]);
  if (!row) throw documentNotFound(kind, id);
  return row;
}
