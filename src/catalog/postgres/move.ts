import { readFileSync } from "node:fs";
import { join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { Connections, Query, Row as PgRow } from "../../postgres/connections.ts";
import { insertRows } from "../../postgres/insert.ts";
import type { Driver, Row } from "../../sqlite/driver.ts";
import { openReadOnly } from "../../sqlite/open.ts";
import { decrypt, encrypt } from "../encryption.ts";
import { ByteFiles } from "../sqlite/bytes.ts";
import { toCatalogSchema } from "../sqlite/migrations.ts";
import { TableBytes } from "./bytes.ts";
import { agreeOnKey } from "./key-check.ts";

const KEY_BYTES = 32;

export interface MovedCatalogCounts {
  documents: number;
  secrets: number;
  contents: number;
  /** The bytes of all contents. */
  bytes: number;
}

/** One state of a catalog on SQLite, read without a change of its files. */
export class MovedCatalog {
  readonly #folder: string;
  readonly #driver: Driver;
  readonly #files: ByteFiles;

  constructor(folder: string) {
    this.#folder = folder;
    this.#driver = openReadOnly({ folder, file: "catalog.db", schema: toCatalogSchema(folder) });
    this.#files = new ByteFiles(folder, { isReadOnly: true });
  }

  /** Changes with every write to the documents. */
  get fingerprint(): string {
    const statement =
      "SELECT count(*) AS count, max(ordinal) AS last, sum(revision) AS revisions FROM documents";
    const { count, last, revisions } = this.#driver.prepare(statement).get() ?? {};
    return [count, last, revisions].join(" ");
  }

  /** Copies contents one by one, then all documents with their secrets in one transaction. */
  async move(
    database: Connections,
    keys: readonly Uint8Array[],
    told: (counts: Readonly<MovedCatalogCounts>) => void,
  ): Promise<MovedCatalogCounts> {
    const counts = { documents: 0, secrets: 0, contents: 0, bytes: 0 };
    const key = keys.length > 0 ? await agreeOnKey(database, keys) : undefined;
    await this.#moveContents(database, counts, told);
    await database.transact(async (query) => {
      for (const table of ["labels", "secrets", "content_uses", "content_holds", "documents"])
        await query(`DELETE FROM sluice.${table}`);
      const documents = this.#all("documents").map((row) =>
        Object.assign(toTenant(row) as PgRow, { archived: row["archived"] === 1 }),
      );
      counts.documents = await insertRows(query, "documents", DOCUMENT, documents);
      await insertRows(query, "labels", LABEL, this.#all("labels").map(toTenant));
      await insertRows(query, "content_uses", { document: "bigint", hash: "text" }, this.#all("byte_uses"));
      counts.secrets = await insertRows(query, "secrets", SECRET, this.#secrets(key));
      await continueOrdinals(query, this.#lastOrdinal);
    });
    told(counts);
    return counts;
  }

  close(): void {
    this.#driver.close();
  }

  async #moveContents(
    database: Connections,
    counts: MovedCatalogCounts,
    told: (counts: Readonly<MovedCatalogCounts>) => void,
  ): Promise<void> {
    const bytes = new TableBytes(database, Date.now);
    // What a killed run has left unfinished.
    await database.query("DELETE FROM sluice.content_chunks WHERE content LIKE 'draft-%'");
    for (const row of this.#driver.prepare("SELECT DISTINCT hash FROM byte_uses").all()) {
      const hash = String(row["hash"]);
      const size = this.#files.sizeOf(hash);
      if (size === undefined) throw damaged(this.#files.pathOf(hash), "is missing");
      if ((await bytes.read(hash)) === undefined) {
        const written = await bytes.write(this.#files.stream(hash) as unknown as AsyncIterable<Uint8Array>);
        if (written.hash !== hash)
          throw damaged(this.#files.pathOf(hash), "has another content than its name says");
      }
      counts.contents += 1;
      counts.bytes += size;
      told(counts);
    }
  }

  *#secrets(key: Uint8Array | undefined): Generator<{ document: number; encrypted: string }> {
    const rows = this.#driver
      .prepare(
        "SELECT s.document, s.sealed, d.owner, d.kind, d.id FROM secrets s JOIN documents d ON d.ordinal = s.document",
      )
      .all();
    if (rows.length === 0) return;
    const old = readFolderKey(this.#folder);
    if (old === undefined || key === undefined)
      throw damaged(keyFile(this.#folder), "is missing, and secrets need it");
    for (const row of rows) {
      const of = { tenant: String(row["owner"]), kind: String(row["kind"]), id: String(row["id"]) };
      const encrypted = encrypt(key, decrypt(old, String(row["sealed"]), of), of);
      yield { document: Number(row["document"]), encrypted };
    }
  }

  get #lastOrdinal(): number {
    const row = this.#driver
      .prepare("SELECT max(seq) AS last FROM sqlite_sequence WHERE name = 'documents'")
      .get();
    return Number(row?.["last"] ?? 0);
  }

  #all(table: string): Row[] {
    return this.#driver.prepare(`SELECT * FROM ${table}`).all();
  }
}

/** The key of a folder's secrets; undefined where it has none yet. */
export function readFolderKey(folder: string): Uint8Array | undefined {
  try {
    const key = readFileSync(keyFile(folder));
    if (key.length === KEY_BYTES) return key;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  throw damaged(keyFile(folder), `does not hold ${KEY_BYTES} bytes`);
}

function keyFile(folder: string): string {
  return join(folder, "catalog.key");
}

/** The next document gets an ordinal that none of the folder has had. */
async function continueOrdinals(query: Query, last: number): Promise<void> {
  await query("SELECT setval(pg_get_serial_sequence('sluice.documents', 'ordinal'), $1::bigint)", [
    Math.max(1, last),
  ]);
}

/** SQLite calls the tenant's column by an older name. */
function toTenant({ owner, ...row }: Row): Row {
  return { ...row, tenant: owner ?? "" };
}

function damaged(path: string, what: string): SluiceError {
  const detail = `The file ${path} ${what}. Put it back from a backup, and run the move again. The folder was not changed.`;
  return new SluiceError("data_version", detail, { path });
}

const DOCUMENT = {
  ordinal: "bigint",
  tenant: "text",
  kind: "text",
  id: "text",
  parent: "text",
  revision: "bigint",
  created_at: "bigint",
  updated_at: "bigint",
  archived: "boolean",
  unique_key: "text",
  labels: "text",
  bytes_until: "bigint",
  body: "text",
};

const LABEL = { tenant: "text", kind: "text", name: "text", value: "text", document: "bigint" };
const SECRET = { document: "bigint", encrypted: "text" };
