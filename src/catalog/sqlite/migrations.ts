import { SluiceError } from "../../contract/index.ts";
import type { Schema } from "../../sqlite/migrations.ts";

/** "SLUC" in the file's header: identifies a catalog. */
const APPLICATION_ID = 0x53_4c_55_43;

// `owner` is the tenant, and the table below it holds encrypted secrets under an older word. Stored names do not change.
const STEPS: readonly string[] = [
  `
    CREATE TABLE documents (
      ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
      owner TEXT NOT NULL,
      kind TEXT NOT NULL,
      id TEXT NOT NULL,
      parent TEXT,
      revision INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      archived INTEGER NOT NULL,
      unique_key TEXT,
      labels TEXT NOT NULL,
      bytes_until INTEGER,
      body TEXT NOT NULL
    );
    CREATE UNIQUE INDEX documents_id ON documents (owner, kind, id);
    CREATE UNIQUE INDEX documents_key ON documents (owner, kind, unique_key) WHERE unique_key IS NOT NULL;
    CREATE INDEX documents_order ON documents (owner, kind, ordinal);
    CREATE INDEX documents_live ON documents (owner, kind, ordinal) WHERE archived = 0;
    CREATE INDEX documents_parent ON documents (owner, parent, kind, ordinal) WHERE parent IS NOT NULL;
    CREATE INDEX documents_created ON documents (owner, kind, created_at, ordinal);
    CREATE INDEX documents_expiring ON documents (bytes_until) WHERE bytes_until IS NOT NULL;
    CREATE TABLE labels (
      owner TEXT NOT NULL,
      kind TEXT NOT NULL,
      name TEXT NOT NULL,
      value TEXT NOT NULL,
      document INTEGER NOT NULL,
      PRIMARY KEY (owner, kind, name, value, document)
    ) WITHOUT ROWID;
    CREATE INDEX labels_document ON labels (document);
    -- Apart from the documents, so that reading one cannot show it.
    CREATE TABLE secrets (document INTEGER PRIMARY KEY, sealed TEXT NOT NULL);
    CREATE TABLE byte_uses (
      document INTEGER NOT NULL,
      hash TEXT NOT NULL,
      PRIMARY KEY (document, hash)
    ) WITHOUT ROWID;
    CREATE INDEX byte_uses_hash ON byte_uses (hash);
    -- Contents that somebody has in hand: stored, and not yet named by a document.
    CREATE TABLE byte_holds (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, until INTEGER NOT NULL);
    CREATE INDEX byte_holds_hash ON byte_holds (hash);
    -- Contents that may be in nobody's use any more.
    CREATE TABLE byte_doubts (hash TEXT PRIMARY KEY) WITHOUT ROWID;
  `,
];

/** The catalog's schema. Its version is the file's `user_version`. */
export function toCatalogSchema(folder: string): Schema {
  return {
    applicationId: APPLICATION_ID,
    migrations: STEPS.map((sql, index) => ({ version: index + 1, apply: (driver) => driver.exec(sql) })),
    readVersion: (driver) => Number(driver.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0),
    writeVersion: (driver, version) => driver.exec(`PRAGMA user_version = ${version}`),
    notOurs: (cause) => notOurs(folder, cause),
    newerVersion: (found, known) => newerVersion(folder, found, known),
  };
}

function notOurs(folder: string, cause: unknown): SluiceError {
  const detail = `The file catalog.db in ${folder} is not a catalog of sluice. Choose another folder (--data), or move that file away. Nothing was changed.`;
  return new SluiceError("data_version", detail, { folder }, { cause });
}

function newerVersion(folder: string, found: number, known: number): SluiceError {
  const detail = `The catalog in ${folder} is of version ${found}; this build of sluice knows version ${known}. Use the newer sluice that wrote it, or another folder (--data). Nothing was changed.`;
  return new SluiceError("data_version", detail, { folder, found, known });
}
