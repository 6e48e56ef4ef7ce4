import { createRequire } from "node:module";
import type LibsqlDatabase from "libsql";
import type LibsqlPromise from "libsql/promise";

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
      // The values go as one array: the binding takes a single null for named parameters.
      return {
        run: (...values) => statement.run(values),
        get: (...values) => statement.get(values) as Row | undefined,
        all: (...values) => statement.all(values) as Row[],
      };
    },
    close: () => void database.close(),
  };
}
