import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { createDriver, sqliteCode, toSluiceError, type Driver } from "../../sqlite/driver.ts";
import { checkVersion, migrate } from "../../sqlite/migrations.ts";
import { createTransact, Transactions } from "../../sqlite/transactions.ts";
import { readEncryptionKey } from "../encryption.ts";
import type { Catalog } from "../port.ts";
import { ByteFiles, ByteRows, FileBytes } from "./bytes.ts";
import { SqliteCatalog } from "./catalog.ts";
import { notOurs, toCatalogSchema } from "./migrations.ts";
import { prepareStatements } from "./statements.ts";

export interface CatalogOptions {
  /** Created with its parents, closed to other users. Holds `catalog.db`, `catalog.key` and `files/`. */
  readonly folder: string;
  readonly now?: () => number;
}

/** A catalog in one SQLite database and a folder of files, which several processes may share. */
export function createCatalog({ folder, now = Date.now }: CatalogOptions): Catalog {
  const schema = toCatalogSchema(folder);
  let driver: Driver | undefined;
  try {
    driver = createDriver(createFile(folder));
    driver.exec("PRAGMA busy_timeout = 5000");
    // Before any change: the file may belong to another program.
    checkVersion(driver, schema);
    driver.prepare("PRAGMA journal_mode = WAL").all();
    driver.exec("PRAGMA synchronous = FULL");
    driver.prepare("PRAGMA secure_delete = ON").all();
    const transact = createTransact(driver);
    migrate(driver, schema);
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

/** SQLite copies this file's mode to its other files. */
function createFile(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, "catalog.db");
  closeSync(openSync(path, "a", 0o600));
  return path;
}

function keyOnFirstUse(folder: string): () => Uint8Array {
  let key: Uint8Array | undefined;
  return () => (key ??= readEncryptionKey(folder));
}
