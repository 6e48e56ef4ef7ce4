import { SluiceError } from "../../contract/index.ts";
import type { Migration, Schema } from "../../sqlite/migrations.ts";

/** "SLUI" in the file's header: identifies a log. */
const APPLICATION_ID = 0x53_4c_55_49;

export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    apply: (driver) =>
      driver.exec(`
        CREATE TABLE sessions (
          ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
          id TEXT NOT NULL UNIQUE,
          created_at INTEGER NOT NULL,
          spec TEXT NOT NULL
        );
        -- What every append changes, apart from what may be large.
        CREATE TABLE places (
          session INTEGER PRIMARY KEY,
          head INTEGER NOT NULL,
          floor INTEGER NOT NULL,
          epoch INTEGER NOT NULL,
          active INTEGER NOT NULL,
          updated_at INTEGER NOT NULL,
          process INTEGER,
          spool_offset INTEGER,
          owner TEXT NOT NULL
        );
        CREATE INDEX places_active ON places (session) WHERE active = 1;
        CREATE TABLE states (
          session INTEGER NOT NULL,
          kind TEXT NOT NULL,
          at INTEGER NOT NULL,
          process INTEGER,
          state TEXT NOT NULL,
          PRIMARY KEY (session, kind)
        );
        CREATE TABLE segments (
          id INTEGER PRIMARY KEY,
          session INTEGER NOT NULL,
          first INTEGER NOT NULL,
          last INTEGER NOT NULL,
          bodies TEXT NOT NULL,
          raws TEXT
        );
        CREATE UNIQUE INDEX segments_place ON segments (session, last);
        CREATE TABLE keys (
          session INTEGER NOT NULL,
          key TEXT NOT NULL,
          fingerprint TEXT NOT NULL,
          answer TEXT NOT NULL,
          PRIMARY KEY (session, key)
        ) WITHOUT ROWID;
        CREATE TABLE blob_uses (
          session INTEGER NOT NULL,
          last INTEGER NOT NULL,
          hash TEXT NOT NULL,
          PRIMARY KEY (session, last, hash)
        ) WITHOUT ROWID;
        CREATE INDEX blob_uses_hash ON blob_uses (hash);
        -- The last epoch of a removed session: its namesake begins behind it, so that an old writer stays fenced.
        CREATE TABLE fences (id TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
        -- Files that may have no use: written before their transaction, or left behind by a removal.
        CREATE TABLE blob_doubts (hash TEXT PRIMARY KEY) WITHOUT ROWID;
      `),
  },
  {
    version: 2,
    apply: (driver) =>
      driver.exec(`
        CREATE INDEX sessions_ttl ON sessions (ordinal) WHERE json_extract(spec, '$.ttl') IS NOT NULL;
      `),
  },
  {
    version: 3,
    // SQLite evaluates the index at the removal of a row, so a row with a damaged spec could not be removed.
    apply: (driver) =>
      driver.exec(`
        DROP INDEX sessions_ttl;
        CREATE INDEX sessions_ttl ON sessions (ordinal)
          WHERE CASE WHEN json_valid(spec) THEN json_extract(spec, '$.ttl') END IS NOT NULL;
      `),
  },
  {
    version: 4,
    apply: (driver) =>
      driver.exec(`
        ALTER TABLE sessions ADD COLUMN tenant TEXT;
        CREATE INDEX sessions_tenant ON sessions (tenant, ordinal) WHERE tenant IS NOT NULL;
      `),
  },
  {
    version: 5,
    apply: (driver) =>
      driver.exec(`
        -- Both follow from the events (docs/decisions/0069).
        CREATE TABLE turns (
          session INTEGER NOT NULL,
          last INTEGER NOT NULL,
          began INTEGER NOT NULL,
          outline TEXT NOT NULL,
          PRIMARY KEY (session, last)
        ) WITHOUT ROWID;
        CREATE TABLE folds (session INTEGER NOT NULL, at INTEGER NOT NULL, state TEXT NOT NULL);
        CREATE UNIQUE INDEX folds_place ON folds (session, at);
      `),
  },
  {
    version: 6,
    apply: (driver) =>
      driver.exec(`
        -- Stays when a session is deleted (docs/decisions/0073).
        CREATE TABLE usage (
          tenant TEXT NOT NULL,
          day TEXT NOT NULL,
          ordinal INTEGER NOT NULL,
          session TEXT NOT NULL,
          model TEXT NOT NULL,
          provider TEXT NOT NULL,
          price TEXT NOT NULL,
          requests INTEGER NOT NULL,
          input INTEGER NOT NULL,
          output INTEGER NOT NULL,
          cache_read INTEGER NOT NULL,
          cache_write INTEGER NOT NULL,
          reasoning INTEGER NOT NULL,
          usd REAL NOT NULL,
          PRIMARY KEY (tenant, day, ordinal, model, provider, price)
        ) WITHOUT ROWID;
        CREATE INDEX usage_session ON usage (session);
      `),
  },
];

interface SchemaOptions {
  readonly folder: string;
  readonly migrations?: readonly Migration[];
}

/** The log's schema. Each version has its row in the table `migrations`. */
export function toLogSchema({ folder, migrations = MIGRATIONS }: SchemaOptions): Schema {
  return {
    applicationId: APPLICATION_ID,
    migrations,
    readVersion: (driver) =>
      Number(driver.prepare("SELECT max(version) AS version FROM migrations").get()?.version ?? 0),
    prepare: (driver) =>
      driver.exec("CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)"),
    writeVersion: (driver, version) => {
      driver.prepare("INSERT INTO migrations (version, applied_at) VALUES (?, ?)").run(version, Date.now());
    },
    notOurs: (cause) => notOurs(folder, cause),
    newerVersion: (found, known) => newerVersion(folder, found, known),
  };
}

function newerVersion(folder: string, found: number, known: number): SluiceError {
  const detail = `The data in ${folder} is of version ${found}; this build of sluice knows version ${known}. Use the newer sluice that wrote it, or another folder (--data). Nothing was changed.`;
  return new SluiceError("data_version", detail, { folder, found, known });
}

function notOurs(folder: string, cause: unknown): SluiceError {
  const detail = `The file log.db in ${folder} is not a sluice database. Choose another folder (--data), or move that file away. Nothing was changed.`;
  return new SluiceError("data_version", detail, { folder }, { cause });
}
