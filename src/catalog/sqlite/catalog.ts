import type { Bytes } from "../bytes/port.ts";
import type {
  Catalog,
  Change,
  CreateDocument,
  Document,
  ListQuery,
  RemoveDocument,
  ReplaceDocument,
} from "../port.ts";
import { documentExists, documentNotFound, keyTaken, revisionMoved } from "../refusals.ts";
import { seal, unseal } from "../seal.ts";
import type { ByteRows } from "./byte-rows.ts";
import type { Driver, Row } from "../../sqlite/driver.ts";
import { Listing } from "./listing.ts";
import type { Statements } from "./statements.ts";
import type { Transactions } from "./transactions.ts";

export interface SqliteParts {
  readonly driver: Driver;
  readonly sql: Statements;
  readonly transactions: Transactions;
  readonly bytes: Bytes;
  readonly byteRows: ByteRows;
  readonly key: () => Uint8Array;
  readonly now: () => number;
}

/** Documents in SQLite. Expects a database that is open and migrated. */
export class SqliteCatalog implements Catalog {
  readonly bytes: Bytes;
  readonly #parts: SqliteParts;
  readonly #sql: Statements;
  readonly #listing: Listing;

  constructor(parts: SqliteParts) {
    this.#parts = parts;
    this.#sql = parts.sql;
    this.#listing = new Listing(parts.driver);
    this.bytes = parts.bytes;
  }

  async write(owner: string, changes: readonly Change[]): Promise<Document[]> {
    return this.#parts.transactions.write(
      () => changes.flatMap((change) => this.#apply(owner, change)),
      () => this.#parts.byteRows.settle(),
    );
  }

  async find(owner: string, kind: string, id: string): Promise<Document | undefined> {
    const row = await this.#parts.transactions.read(() => this.#sql.find.get(owner, kind, id));
    return row && toDocument(row);
  }

  async ownersOf(kind: string, id: string): Promise<string[]> {
    const rows = await this.#parts.transactions.read(() => this.#sql.ownersOf.all(kind, id));
    return rows.map((row) => String(row["owner"]));
  }

  async list(owner: string, query: ListQuery): Promise<Document[]> {
    return (await this.#parts.transactions.read(() => this.#listing.read(owner, query))).map(toDocument);
  }

  async openSecret(owner: string, kind: string, id: string): Promise<string | undefined> {
    return this.#parts.transactions.read(() => {
      const sealed = this.#sql.secret.get(owner, kind, id)?.["sealed"];
      return sealed === undefined
        ? undefined
        : unseal(this.#parts.key(), String(sealed), { owner, kind, id });
    });
  }

  async close(): Promise<void> {
    await this.#parts.transactions.close();
  }

  #apply(owner: string, change: Change): Document[] {
    if (change.op === "remove") {
      this.#remove(owner, change);
      return [];
    }
    const ordinal = change.op === "create" ? this.#create(owner, change) : this.#replace(owner, change);
    const { kind, id, labels, secret, bytes } = change;
    if (labels) {
      this.#sql.dropLabels.run(ordinal);
      for (const [name, value] of Object.entries(labels))
        this.#sql.addLabel.run(owner, kind, name, value, ordinal);
    }
    if (secret === null) this.#sql.dropSecret.run(ordinal);
    else if (secret !== undefined)
      this.#sql.setSecret.run(ordinal, seal(this.#parts.key(), secret, { owner, kind, id }));
    if (bytes) this.#parts.byteRows.use(ordinal, bytes);
    return [toDocument(this.#mustFind(owner, kind, id))];
  }

  #create(owner: string, change: CreateDocument): number {
    const { kind, id, parent, archived, uniqueKey, labels, bytesUntil, body } = change;
    if (this.#sql.find.get(owner, kind, id)) throw documentExists(kind, id);
    this.#assertFree(owner, kind, uniqueKey);
    const time = Math.max(this.#parts.now(), Number(this.#sql.newestTime.get()?.["created_at"] ?? 0));
    this.#sql.add.run(
      owner,
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
    return Number(this.#mustFind(owner, kind, id)["ordinal"]);
  }

  #replace(owner: string, change: ReplaceDocument): number {
    const { kind, id, expect, archived, uniqueKey, labels, bytesUntil, body } = change;
    const row = this.#mustFind(owner, kind, id);
    const [ordinal, revision] = [Number(row["ordinal"]), Number(row["revision"])];
    if (revision !== expect) throw revisionMoved(kind, id, expect, revision);
    this.#assertFree(owner, kind, uniqueKey, ordinal);
    this.#sql.replace.run(
      this.#parts.now(),
      archived === undefined ? (row["archived"] ?? 0) : archived ? 1 : 0,
      uniqueKey === undefined ? (row["unique_key"] ?? null) : uniqueKey,
      labels ? JSON.stringify(labels) : String(row["labels"]),
      bytesUntil === undefined ? (row["bytes_until"] ?? null) : bytesUntil,
      JSON.stringify(body),
      ordinal,
    );
    return ordinal;
  }

  #remove(owner: string, { kind, id, children }: RemoveDocument): void {
    const rows = [this.#mustFind(owner, kind, id)];
    if (children) rows.push(...this.#sql.children.all(owner, id));
    for (const row of rows) {
      const ordinal = Number(row["ordinal"]);
      this.#sql.dropLabels.run(ordinal);
      this.#sql.dropSecret.run(ordinal);
      this.#parts.byteRows.use(ordinal, []);
      this.#sql.remove.run(ordinal);
    }
  }

  #assertFree(owner: string, kind: string, uniqueKey: string | null | undefined, ordinal?: number): void {
    if (uniqueKey === undefined || uniqueKey === null) return;
    const holder = this.#sql.keyHolder.get(owner, kind, uniqueKey)?.["ordinal"];
    if (holder !== undefined && holder !== ordinal) throw keyTaken(kind, uniqueKey);
  }

  #mustFind(owner: string, kind: string, id: string): Row {
    const row = this.#sql.find.get(owner, kind, id);
    if (!row) throw documentNotFound(kind, id);
    return row;
  }
}

function toDocument(row: Row): Document {
  return {
    kind: String(row["kind"]),
    id: String(row["id"]),
    parent: row["parent"] === null ? undefined : String(row["parent"]),
    ordinal: Number(row["ordinal"]),
    revision: Number(row["revision"]),
    createdAt: Number(row["created_at"]),
    updatedAt: Number(row["updated_at"]),
    archived: row["archived"] === 1,
    labels: JSON.parse(String(row["labels"])),
    body: JSON.parse(String(row["body"])),
  };
}
