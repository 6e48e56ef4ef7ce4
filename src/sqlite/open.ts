import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { SluiceError } from "../contract/index.ts";
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

/** Opens an up-to-date database to read one state of it. No file of it is changed, and other processes may write on. */
export function openReadOnly(options: Omit<DatabaseOptions, "open">): Driver {
  const { folder, file, schema } = options;
  let driver: Driver | undefined;
  try {
    driver = createDriver(`${pathToFileURL(join(folder, file)).href}?mode=ro`);
    driver.exec("PRAGMA busy_timeout = 5000");
    const version = checkVersion(driver, schema);
    const known = schema.migrations.at(-1)?.version ?? 0;
    if (version < known) throw olderVersion(join(folder, file), version, known);
    driver.exec("BEGIN");
    return driver;
  } catch (error) {
    driver?.close();
    throw sqliteCode(error) === "SQLITE_NOTADB" ? schema.notOurs(error) : toSluiceError(error, folder);
  }
}

function olderVersion(path: string, found: number, known: number): SluiceError {
  const detail = `The data in ${path} is of version ${found}; this build of sluice reads version ${known}. Start \`sluice serve\` with this folder once: it brings the data up to date. Nothing was changed.`;
  return new SluiceError("data_version", detail, { path, found, known });
}
