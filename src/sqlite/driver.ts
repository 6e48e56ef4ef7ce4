import Database from "libsql";
import BesideDatabase from "libsql/promise";

/** The little of SQLite that we need; another binding can take over here. */
export interface Driver {
  exec(sql: string): void;
  /** The same beside this thread. Until it settles nobody may use the connection. */
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

/** An error of SQLite itself carries its result code's name, such as `SQLITE_FULL`. */
export function sqliteCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" && error.code.startsWith("SQLITE_") ? error.code : undefined;
}

export function createDriver(path: string): Driver {
  const database = new Database(path);
  return {
    exec: (sql) => void database.exec(sql),
    // Both faces of the binding stand before the same connection; only this one's `exec` runs on its own thread.
    execBeside: (sql) => BesideDatabase.prototype.exec.call(database, sql),
    prepare: (sql) => {
      const statement = database.prepare(sql);
      // As one array: spread, a lone null would be taken for named parameters.
      return {
        run: (...values) => statement.run(values),
        get: (...values) => statement.get(values) as Row | undefined,
        all: (...values) => statement.all(values) as Row[],
      };
    },
    close: () => void database.close(),
  };
}
