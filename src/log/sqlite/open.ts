import { createDriver, type Driver } from "../../sqlite/driver.ts";
import { migrate } from "../../sqlite/migrations.ts";
import { openDatabase } from "../../sqlite/open.ts";
import type { EventLog } from "../port.ts";
import { StoredLog } from "../stored-log.ts";
import { toLogSchema } from "./migrations.ts";
import { SqliteStore } from "./store.ts";

const PAGE_BYTES = 4096;
/** How long the write-ahead log may become. */
export const WAL_PAGES = 16_384;

export interface SqliteLogOptions {
  /** Created with its parents, closed to other users. */
  readonly folder: string;
  /** `normal` survives the death of any process; `full` also the loss of power, and waits for the disk each time. */
  readonly synchronous?: "normal" | "full";
}

/** A log in one SQLite database, which several processes may share. */
export function createSqliteLog(options: SqliteLogOptions): EventLog {
  return new StoredLog(openStore(options));
}

/** Opens the database. Tests pass an `open` of their own. */
export function openStore(
  options: SqliteLogOptions,
  open: (path: string) => Driver = createDriver,
): SqliteStore {
  const { folder, synchronous = "normal" } = options;
  const schema = toLogSchema({ folder });
  return openDatabase({ folder, file: "log.db", schema, open }, (driver, path) => {
    driver.exec(`PRAGMA synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"}`);
    // After a very large batch the WAL gives its space back.
    driver.prepare(`PRAGMA journal_size_limit = ${WAL_PAGES * PAGE_BYTES}`).all();
    // WAL checkpoints are made on another connection. Under a flood they never reach the end; SQLite then makes one
    // itself at this size, with little left to copy.
    driver.prepare(`PRAGMA wal_autocheckpoint = ${WAL_PAGES}`).all();
    migrate(driver, schema);
    repairPlaces(driver);
    return new SqliteStore(driver, { folder, sync: synchronous === "full", another: () => open(path) });
  });
}

const DAMAGED_PLACE = `
  typeof(head) <> 'integer' OR typeof(floor) <> 'integer' OR typeof(epoch) <> 'integer'
  OR typeof(updated_at) <> 'integer' OR active NOT IN (0, 1)`;

/** Repairs rows of `places` that a damaged disk has changed: their values are derived from the segments. */
function repairPlaces(driver: Driver): void {
  if (!driver.prepare(`SELECT 1 FROM places WHERE ${DAMAGED_PLACE} LIMIT 1`).get()) return;
  driver.exec(`
    UPDATE places SET
      head = iif(typeof(head) = 'integer', head,
        coalesce((SELECT max(g.last) FROM segments g WHERE g.session = places.session), CAST(floor AS INTEGER))),
      floor = iif(typeof(floor) = 'integer', floor,
        coalesce((SELECT min(g.first) - 1 FROM segments g WHERE g.session = places.session), CAST(head AS INTEGER))),
      epoch = CAST(epoch AS INTEGER),
      active = iif(active IN (0, 1), active, 1),
      updated_at = iif(typeof(updated_at) = 'integer', updated_at,
        (SELECT CAST(s.created_at AS INTEGER) FROM sessions s WHERE s.ordinal = places.session))
    WHERE ${DAMAGED_PLACE}`);
}
