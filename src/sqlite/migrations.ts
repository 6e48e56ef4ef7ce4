import type { SluiceError } from "../contract/index.ts";
import type { Driver } from "./driver.ts";
import { createTransact } from "./transactions.ts";

/** One step of a database's schema. A released step is never edited: the next change is a new step. */
export interface Migration {
  readonly version: number;
  apply(driver: Driver): void;
}

/** The identity of one kind of database, and the storage of its version. */
export interface Schema {
  /** A number in the file's header. */
  readonly applicationId: number;
  readonly migrations: readonly Migration[];
  /** Runs in an empty file, before the first step. */
  prepare?(driver: Driver): void;
  readVersion(driver: Driver): number;
  writeVersion(driver: Driver, version: number): void;
  notOurs(cause?: unknown): SluiceError;
  newerVersion(found: number, known: number): SluiceError;
}

/** The version of the database; 0 for an empty file. Throws for the file of another program and for a newer version. */
export function checkVersion(driver: Driver, schema: Schema): number {
  // Tables first: another process may commit its tables and its id between the two reads.
  const tables = Number(driver.prepare("SELECT count(*) AS count FROM sqlite_master").get()?.["count"] ?? 0);
  const id = Number(driver.prepare("PRAGMA application_id").get()?.["application_id"] ?? 0);
  if (id !== schema.applicationId) {
    if (id === 0 && tables === 0) return 0;
    throw schema.notOurs();
  }
  const version = schema.readVersion(driver);
  const known = newestOf(schema);
  if (version > known) throw schema.newerVersion(version, known);
  return version;
}

/** Brings the database up to the newest version. Each step commits together with its version. */
export function migrate(driver: Driver, schema: Schema): void {
  const transact = createTransact(driver);
  while (checkVersion(driver, schema) < newestOf(schema)) transact(() => applyNext(driver, schema));
}

/**
 * Applies the next step to an older database. A new one gets all steps at once, so that its first start waits for the
 * disk only once.
 */
function applyNext(driver: Driver, schema: Schema): void {
  // Another process may have migrated meanwhile.
  const version = checkVersion(driver, schema);
  const missing = schema.migrations.filter((migration) => migration.version > version);
  if (version === 0) {
    driver.exec(`PRAGMA application_id = ${schema.applicationId}`);
    schema.prepare?.(driver);
  }
  for (const migration of version === 0 ? missing : missing.slice(0, 1)) {
    migration.apply(driver);
    schema.writeVersion(driver, migration.version);
  }
}

function newestOf({ migrations }: Schema): number {
  return migrations.at(-1)?.version ?? 0;
}
