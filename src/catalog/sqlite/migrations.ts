import { SluiceError } from "../../contract/index.ts";
import type { Driver } from "../../sqlite/driver.ts";
import type { Transact } from "../../sqlite/transact.ts";

/** "SLUC", in the file's header: tells a catalog from any other database. */
const APPLICATION_ID = 0x53_4c_55_43;

/** Each step of the database's shape. A released one is never edited: the next change is a new one behind it. */
const MIGRATIONS: readonly string[] = [
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

/** Fails where the file is not a catalog, or newer than this build; changes nothing then. */
export function checkVersion(driver: Driver, folder: string): number {
  const id = Number(driver.prepare("PRAGMA application_id").get()?.["application_id"] ?? 0);
  const version = Number(driver.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
  const tables = Number(driver.prepare("SELECT count(*) AS count FROM sqlite_master").get()?.["count"] ?? 0);
  if (id === 0 && tables === 0) return 0;
  if (id !== APPLICATION_ID) throw notOurs(folder);
  if (version > MIGRATIONS.length) throw newerVersion(folder, version);
  return version;
}

/** Each step commits with its number, or not at all. */
export function migrate(driver: Driver, transact: Transact, folder: string): void {
  while (checkVersion(driver, folder) < MIGRATIONS.length) {
    transact(() => {
      // Another process may have come first.
      const version = checkVersion(driver, folder);
      const step = MIGRATIONS[version];
      if (step === undefined) return;
      driver.exec(step);
      driver.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
      driver.exec(`PRAGMA user_version = ${version + 1}`);
    });
  }
}

export function notOurs(folder: string, cause?: unknown): SluiceError {
  const detail = `The file catalog.db in ${folder} is not a catalog of sluice. Choose another folder (--data), or move that file away. Nothing was changed.`;
  return new SluiceError("data_version", detail, { folder }, { cause });
}

function newerVersion(folder: string, found: number): SluiceError {
  const known = MIGRATIONS.length;
  const detail = `The catalog in ${folder} is of version ${found}; this build of sluice knows version ${known}. Use the newer sluice that wrote it, or another folder (--data). Nothing was changed.`;
  return new SluiceError("data_version", detail, { folder, found, known });
}
