import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import type { EventLog } from "../port.ts";
import { StoredLog } from "../stored-log.ts";
import { createDriver, sqliteCode } from "../../sqlite/driver.ts";
import type { Driver } from "../../sqlite/driver.ts";
import { toSluiceError } from "../../sqlite/failures.ts";
import { checkVersion, migrate, notOurs } from "./migrations.ts";
import { SqliteStore } from "./store.ts";

const PAGE_BYTES = 4096;
/** How long the write-ahead log may become. */
export const WAL_PAGES = 16_384;

export interface SqliteLogOptions {
  /** Created with its parents, closed to others. */
  readonly folder: string;
  /** `normal` survives the death of any process; `full` also the loss of power, and waits for the disk each time. */
  readonly synchronous?: "normal" | "full";
}

/** A log in one SQLite database, which several processes may share. */
export function createSqliteLog(options: SqliteLogOptions): EventLog {
  return new StoredLog(openStore(options));
}

/** `open` may give another binding, or one that counts. */
export function openStore(
  options: SqliteLogOptions,
  open: (path: string) => Driver = createDriver,
): SqliteStore {
  const { folder, synchronous = "normal" } = options;
  let driver: Driver | undefined;
  try {
    const path = createFile(folder);
    driver = open(path);
    driver.exec("PRAGMA busy_timeout = 5000");
    // Before anything is changed: the file may be somebody else's.
    checkVersion(driver, { folder });
    driver.prepare("PRAGMA journal_mode = WAL").all();
    driver.exec(`PRAGMA synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"}`);
    // After a very large batch the WAL gives its space back.
    driver.prepare(`PRAGMA journal_size_limit = ${WAL_PAGES * PAGE_BYTES}`).all();
    // Checkpoints are made beside. In a flood, whose end they never reach, SQLite makes one by itself when so much has
    // come together; little is left to be done for it by then.
    driver.prepare(`PRAGMA wal_autocheckpoint = ${WAL_PAGES}`).all();
    migrate(driver, { folder });
    return new SqliteStore(driver, { folder, sync: synchronous === "full", another: () => open(path) });
  } catch (error) {
    driver?.close();
    if (sqliteCode(error) === "SQLITE_NOTADB") throw notOurs(folder, error);
    throw toSluiceError(error, folder);
  }
}

/** SQLite gives its other files the mode of this one. */
function createFile(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, "log.db");
  closeSync(openSync(path, "a", 0o600));
  return path;
}
