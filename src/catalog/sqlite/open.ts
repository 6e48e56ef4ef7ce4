import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { ByteFiles } from "../bytes/files.ts";
import { FileBytes } from "../bytes/stored.ts";
import type { Catalog } from "../port.ts";
import { readSealKey } from "../seal-key.ts";
import { ByteRows } from "./byte-rows.ts";
import { SqliteCatalog } from "./catalog.ts";
import { createDriver, type Driver, sqliteCode } from "../../sqlite/driver.ts";
import { toSluiceError } from "../../sqlite/failures.ts";
import { checkVersion, migrate, notOurs } from "./migrations.ts";
import { prepareStatements } from "./statements.ts";
import { Transactions } from "./transactions.ts";
import { createTransact } from "../../sqlite/transact.ts";

export interface CatalogOptions {
  /** Created with its parents, closed to others. Holds `catalog.db`, `catalog.key` and `files/`. */
  readonly folder: string;
  readonly now?: () => number;
}

/** A catalog in one SQLite database and a folder of files, which several processes may share. */
export function createCatalog({ folder, now = Date.now }: CatalogOptions): Catalog {
  let driver: Driver | undefined;
  try {
    driver = createDriver(createFile(folder));
    driver.exec("PRAGMA busy_timeout = 5000");
    // Before anything is changed: the file may be somebody else's.
    checkVersion(driver, folder);
    driver.prepare("PRAGMA journal_mode = WAL").all();
    driver.exec("PRAGMA synchronous = FULL");
    driver.prepare("PRAGMA secure_delete = ON").all();
    const transact = createTransact(driver);
    migrate(driver, transact, folder);
    const sql = prepareStatements(driver);
    const files = new ByteFiles(folder);
    const transactions = new Transactions(driver, folder);
    const byteRows = new ByteRows({ files, sql, transact, transactions, now });
    byteRows.settle();
    const bytes = new FileBytes(files, byteRows, folder);
    const key = keyOnFirstUse(folder);
    return new SqliteCatalog({ driver, sql, transactions, bytes, byteRows, key, now });
  } catch (error) {
    driver?.close();
    if (sqliteCode(error) === "SQLITE_NOTADB") throw notOurs(folder, error);
    throw toSluiceError(error, folder);
  }
}

/** SQLite gives its other files the mode of this one. */
function createFile(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, "catalog.db");
  closeSync(openSync(path, "a", 0o600));
  return path;
}

function keyOnFirstUse(folder: string): () => Uint8Array {
  let key: Uint8Array | undefined;
  return () => (key ??= readSealKey(folder));
}
