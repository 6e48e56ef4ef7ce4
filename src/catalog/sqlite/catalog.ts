import type { Driver, Row } from "../../sqlite/driver.ts";
import { migrate } from "../../sqlite/migrations.ts";
import { openDatabase } from "../../sqlite/open.ts";
import { createTransact, Transactions } from "../../sqlite/transactions.ts";
import { decrypt, encrypt, readEncryptionKey } from "../encryption.ts";
import type {
  Bytes,
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
import { ByteFiles, ByteRows, FileBytes } from "./bytes.ts";
import { toCatalogSchema } from "./migrations.ts";
import { Listing, prepareStatements, type Statements } from "./statements.ts";

export interface CatalogOptions {
  /** Created with its parents, closed to other users. Holds `catalog.db`, `catalog.key` and `files/`. */
  readonly folder: string;
  readonly now?: () => number;
}

/** A catalog in one SQLite database and a folder of files, which several processes may share. */
export function createCatalog({ folder, now = Date.now }: CatalogOptions): Catalog {
  const schema = toCatalogSchema(folder);
  return openDatabase({ folder, file: "catalog.db", schema }, (driver) => {
    driver.exec("PRAGMA synchronous = FULL");
    driver.prepare("PRAGMA secure_delete = ON").all();
    migrate(driver, schema);
    return new SqliteCatalog(driver, folder, now);
  });
}

/** Documents in SQLite. Expects a database that is open and migrated. */
class SqliteCatalog implements Catalog {
  readonly bytes: Bytes;
  readonly #folder: string;
  readonly #now: () => number;
  readonly #sql: Statements;
  readonly #transactions: Transactions;
  readonly #byteRows: ByteRows;
  readonly #listing: Listing;
  #key: Uint8Array | undefined;

  constructor(driver: Driver, folder: string, now: () => number) {
    this.#folder = folder;
    this.#now = now;
    this.#sql = prepareStatements(driver);
    this.#transactions = new Transactions(driver, folder);
    this.#listing = new Listing(driver);
    const files = new ByteFiles(folder);
    const shared = { sql: this.#sql, transact: createTransact(driver), transactions: this.#transactions };
    this.#byteRows = new ByteRows({ files, ...shared, now });
    this.#byteRows.settle();
    this.bytes = new FileBytes(files, this.#byteRows, folder);
  }

  async write(tenant: string, changes: readonly Change[]): Promise<Document[]> {
    return this.#transactions.write(
      () => changes.flatMap((change) => this.#apply(tenant, change)),
      () => this.#byteRows.settle(),
    );
  }

  async find(tenant: string, kind: string, id: string): Promise<Document | undefined> {
    const row = await this.#transactions.read(() => this.#sql.find.get(tenant, kind, id));
    return row && toDocument(row);
  }

  async tenantsOf(kind: string, id: string): Promise<string[]> {
    const rows = await this.#transactions.read(() => this.#sql.tenantsOf.all(kind, id));
    return rows.map((row) => String(row["owner"]));
  }

  /** Damaged documents are left out, so that one of them does not hide the others. */
  async list(tenant: string, query: ListQuery): Promise<Document[]> {
    const found: Document[] = [];
    for (let { after } = query; ;) {
      const limit = query.limit - found.length;
      const page = { ...query, limit, after };
      const rows = await this.#transactions.read(() => this.#listing.read(tenant, page));
      found.push(...rows.flatMap((row) => readDocument(row) ?? []));
      if (rows.length < limit || found.length === query.limit) return found;
      after = Number(rows.at(-1)?.["ordinal"]);
    }
  }

  async openSecret(tenant: string, kind: string, id: string): Promise<string | undefined> {
    return this.#transactions.read(() => {
      const encrypted = this.#sql.secret.get(tenant, kind, id)?.["sealed"];
      return encrypted === undefined
        ? undefined
        : decrypt(this.#secretKey(), String(encrypted), { tenant, kind, id });
    });
  }

  async close(): Promise<void> {
    await this.#transactions.close();
  }

  /** Read, or made, on first use. */
  #secretKey(): Uint8Array {
    this.#key ??= readEncryptionKey(this.#folder);
    return this.#key;
  }

  #apply(tenant: string, change: Change): Document[] {
    if (change.op === "remove") {
      this.#remove(tenant, change);
      return [];
    }
    const ordinal = change.op === "create" ? this.#create(tenant, change) : this.#replace(tenant, change);
    const { kind, id, labels, secret, bytes } = change;
    if (labels) {
      this.#sql.dropLabels.run(ordinal);
      for (const [name, value] of Object.entries(labels))
        this.#sql.addLabel.run(tenant, kind, name, value, ordinal);
    }
    if (secret === null) this.#sql.dropSecret.run(ordinal);
    else if (secret !== undefined)
      this.#sql.setSecret.run(ordinal, encrypt(this.#secretKey(), secret, { tenant, kind, id }));
    if (bytes) this.#byteRows.use(ordinal, bytes);
    return [toDocument(this.#mustFind(tenant, kind, id))];
  }

  #create(tenant: string, change: CreateDocument): number {
    const { kind, id, parent, archived, uniqueKey, labels, bytesUntil, body } = change;
    if (this.#sql.find.get(tenant, kind, id)) throw documentExists(kind, id);
    this.#assertFree(tenant, kind, uniqueKey);
    const newest = Number(this.#sql.newestTime.get()?.["created_at"]);
    const time = Math.max(this.#now(), Number.isNaN(newest) ? 0 : newest);
    this.#sql.add.run(
      tenant,
      kind,
      id,
      parent ?? null,
      time,
      archived ? 1 : 0,
      uniqueKey ?? null,
      JSON.stringify(labels ?? {}),
      bytesUntil ?? null,
      JSON.stringify(body),
    );
    return Number(this.#mustFind(tenant, kind, id)["ordinal"]);
  }

  #replace(tenant: string, change: ReplaceDocument): number {
    const { kind, id, expect, archived, uniqueKey, labels, bytesUntil, body } = change;
    const row = this.#mustFind(tenant, kind, id);
    const [ordinal, revision] = [Number(row["ordinal"]), Number(row["revision"])];
    if (revision !== expect) throw revisionMoved(kind, id, expect, revision);
    this.#assertFree(tenant, kind, uniqueKey, ordinal);
    this.#sql.replace.run(
      this.#now(),
      archived === undefined ? (row["archived"] ?? 0) : archived ? 1 : 0,
      uniqueKey === undefined ? (row["unique_key"] ?? null) : uniqueKey,
      labels ? JSON.stringify(labels) : String(row["labels"]),
      bytesUntil === undefined ? (row["bytes_until"] ?? null) : bytesUntil,
      JSON.stringify(body),
      ordinal,
    );
    return ordinal;
  }

  #remove(tenant: string, { kind, id, children }: RemoveDocument): void {
    const rows = [this.#mustFind(tenant, kind, id)];
    if (children) rows.push(...this.#sql.children.all(tenant, id));
    for (const row of rows) {
      const ordinal = Number(row["ordinal"]);
      this.#sql.dropLabels.run(ordinal);
      this.#sql.dropSecret.run(ordinal);
      this.#byteRows.use(ordinal, []);
      this.#sql.remove.run(ordinal);
    }
  }

  #assertFree(tenant: string, kind: string, uniqueKey: string | null | undefined, ordinal?: number): void {
    if (uniqueKey === undefined || uniqueKey === null) return;
    const holder = this.#sql.keyHolder.get(tenant, kind, uniqueKey)?.["ordinal"];
    if (holder !== undefined && holder !== ordinal) throw keyTaken(kind, uniqueKey);
  }

  #mustFind(tenant: string, kind: string, id: string): Row {
    const row = this.#sql.find.get(tenant, kind, id);
    if (!row) throw documentNotFound(kind, id);
    return row;
  }
}
