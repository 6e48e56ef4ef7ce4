import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { createDriver, type Driver } from "./driver.ts";
import { sqliteCode, toSluiceError } from "./failure.ts";
import { checkVersion, type Schema } from "./migrations.ts";

interface DatabaseOptions {
  /** Created with its parents, closed to other users. */
  readonly folder: string;
  readonly file: string;
  readonly schema: Schema;
  readonly open?: (path: string) => Driver;
}

/** Opens a database with a write-ahead log for `use`. If `use` fails, the database is closed again. */
export function openDatabase<T>(options: DatabaseOptions, use: (driver: Driver, path: string) => T): T {
  const { folder, file, schema, open = createDriver } = options;
  let driver: Driver | undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, file);
    // SQLite copies this file's mode to its other files.
    closeSync(openSync(path, "a", 0o600));
    driver = open(path);
    driver.exec("PRAGMA busy_timeout = 5000");
    // Before any change: the file may belong to another program.
    checkVersion(driver, schema);
    driver.prepare("PRAGMA journal_mode = WAL").all();
    return use(driver, path);
  } catch (error) {
    driver?.close();
    throw sqliteCode(error) === "SQLITE_NOTADB" ? schema.notOurs(error) : toSluiceError(error, folder);
  }
}
