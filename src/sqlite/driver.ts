import { createRequire } from "node:module";
import type LibsqlDatabase from "libsql";
import type LibsqlPromise from "libsql/promise";
import { SluiceError } from "../contract/index.ts";

/** The part of SQLite that sluice uses, so that another binding can replace this one. */
export interface Driver {
  exec(sql: string): void;
  /** As `exec`, on another thread. Until it settles the connection must not be used. */
  execBeside(sql: string): Promise<void>;
  prepare(sql: string): Statement;
  close(): void;
}

export interface Statement {
  run(...values: Value[]): { readonly changes: number };
  get(...values: Value[]): Row | undefined;
  all(...values: Value[]): Row[];
}

export type Value = string | number | null;
export type Row = Record<string, Value>;

/** The name of an SQLite error's result code, such as `SQLITE_FULL`. */
export function sqliteCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" && error.code.startsWith("SQLITE_") ? error.code : undefined;
}

const require = createRequire(import.meta.url);

/** Loads the binding, with its native code, for the first database: many programs open none. */
function loadBinding(): { Database: typeof LibsqlDatabase; BesideDatabase: typeof LibsqlPromise } {
  return { Database: require("libsql"), BesideDatabase: require("libsql/promise") };
}

export function createDriver(path: string): Driver {
  const { Database, BesideDatabase } = loadBinding();
  const database = new Database(path);
  return {
    exec: (sql) => void database.exec(sql),
    // Both APIs of the binding use the same connection; only this one's `exec` runs on its own thread.
    execBeside: (sql) => BesideDatabase.prototype.exec.call(database, sql),
    prepare: (sql) => {
      const statement = database.prepare(sql);
      // The values go as one array: the binding would take a single null for named parameters.
      return {
        run: (...values) => statement.run(values),
        get: (...values) => statement.get(values) as Row | undefined,
        all: (...values) => statement.all(values) as Row[],
      };
    },
    close: () => void database.close(),
  };
}

const FULL = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]);

/** Maps a failure of the database or the file system to the error table. */
export function toSluiceError(error: unknown, folder: string): unknown {
  if (error instanceof SluiceError) return error;
  const code = sqliteCode(error) ?? systemCode(error);
  if (code === undefined) return error;
  const cause = { cause: error };
  if (FULL.has(code)) {
    return new SluiceError(
      "storage_full",
      `The disk is full: free space on ${folder} and try again. Nothing was lost, and nothing of this request was stored.`,
      { folder },
      cause,
    );
  }
  if (code === "SQLITE_BUSY" || code.startsWith("SQLITE_BUSY_")) {
    return new SluiceError(
      "timeout",
      `Another process has held the database in ${folder} for too long. Nothing was stored; try again.`,
      { folder },
      cause,
    );
  }
  return new SluiceError(
    "internal",
    `The database in ${folder} failed: ${error instanceof Error ? error.message : String(error)} (${code}). Nothing of this request was stored; check the disk and the folder's permissions.`,
    { folder, code },
    cause,
  );
}

function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
