import { setTimeout as sleep } from "node:timers/promises";
import type postgres from "postgres";
import { SluiceError } from "../contract/index.ts";
import { nameOf, parseAddress } from "./address.ts";
import { isAway, isDeadlock, toSluiceError } from "./failure.ts";

/** A value of a statement, sent as its text. The statement names the types. */
export type Parameter = { toString(): string } | null;
export type Row = Record<string, unknown>;
export type Query = (statement: string, parameters?: readonly Parameter[]) => Promise<Row[]>;

export interface ConnectionOptions {
  readonly url: string;
  /** The most connections. */
  readonly max: number;
  /** How long a statement may take before its connection is given up. */
  readonly deadlineMs?: number;
  /** How long a read is repeated while the database is away. */
  readonly patienceMs?: number;
}

const DEADLINE_MS = 30_000;
const CONNECT_SECONDS = 5;
const TRIES = 5;
const IS_READ = /^\s*SELECT\b/i;
const PATIENCE_MS = 10_000;
const PAUSE_MS = 200;

/** A few connections to one database. The driver has no time limit for statements; this class has. */
export class Connections {
  readonly name: string;
  readonly #open: () => postgres.Sql;
  readonly #deadlineMs: number;
  readonly #patienceMs: number;
  #sql: postgres.Sql;
  #isClosed = false;
  /** Whether a statement has ever succeeded. Before that the address may be wrong, so nothing is repeated. */
  #wasReached = false;

  private constructor(
    open: () => postgres.Sql,
    name: string,
    { deadlineMs = DEADLINE_MS, patienceMs = PATIENCE_MS }: Partial<ConnectionOptions>,
  ) {
    this.#open = open;
    this.#sql = open();
    this.name = name;
    this.#deadlineMs = deadlineMs;
    this.#patienceMs = patienceMs;
  }

  static async create(options: ConnectionOptions): Promise<Connections> {
    const { url, max } = options;
    const { ssl, ...address } = parseAddress(url);
    const driver = await loadDriver();
    const open = (): postgres.Sql =>
      driver({
        ...address,
        ssl: ssl as NonNullable<postgres.Options<Record<string, never>>["ssl"]>,
        max,
        // A pooler in transaction mode loses prepared statements, and refuses most start-up parameters.
        prepare: false,
        fetch_types: false,
        connection: { application_name: "sluice" },
        connect_timeout: CONNECT_SECONDS,
        backoff: () => 0.1,
        onnotice: () => {},
      });
    return new Connections(open, nameOf(url), options);
  }

  /**
   * Runs one statement. Fails with an error of the error table. While the database is away, a statement that only reads
   * is repeated for a while, so that a failover fails no reader.
   */
  query: Query = async (statement, parameters = []) => {
    const texts = [...parameters].map(toText);
    for (const deadline = performance.now() + this.#patienceMs; ; await sleep(PAUSE_MS)) {
      try {
        const rows = await this.#timed((sql) => sql.unsafe(statement, texts) as unknown as Promise<Row[]>);
        this.#wasReached = true;
        return rows;
      } catch (error) {
        const isRepeated = this.#wasReached && !this.#isClosed && IS_READ.test(statement) && isAway(error);
        if (!isRepeated || performance.now() > deadline) throw error;
      }
    }
  };

  /** Runs the work in one transaction; after a deadlock again, a few times. */
  async transact<T>(work: (query: Query) => Promise<T>): Promise<T> {
    for (let tries = TRIES; ; tries -= 1) {
      try {
        return await this.#timed(
          (sql) =>
            sql.begin((inner) =>
              work(
                (statement, parameters = []) =>
                  inner.unsafe(statement, [...parameters].map(toText)) as unknown as Promise<Row[]>,
              ),
            ) as Promise<T>,
        );
      } catch (error) {
        if (tries === 1 || !isDeadlock((error as Error).cause)) throw error;
      }
    }
  }

  /** Listens on a channel on a connection of its own, which is made again when it breaks. */
  async listen(
    channel: string,
    on: { readonly message: (text: string) => void; readonly connected: () => void },
  ): Promise<() => Promise<void>> {
    const { unlisten } = await this.#sql.listen(channel, on.message, on.connected);
    return unlisten;
  }

  /** Ends all connections at once; running statements fail. The next statement connects again. */
  recycle(): void {
    if (this.#isClosed) return;
    const old = this.#sql;
    this.#sql = this.#open();
    void old.end({ timeout: 0 }).catch(() => {});
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#sql.end({ timeout: 5 });
  }

  async #timed<T>(run: (sql: postgres.Sql) => Promise<T>): Promise<T> {
    const sql = this.#sql;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        const detail = `The database ${this.name} has not answered for ${this.#deadlineMs / 1000} seconds. Check it and the network; then try again.`;
        reject(new SluiceError("storage_unavailable", detail, { database: this.name }));
        if (this.#sql === sql) this.recycle();
      }, this.#deadlineMs);
    });
    try {
      return await Promise.race([run(sql), late]);
    } catch (error) {
      throw toSluiceError(error, this.name);
    } finally {
      clearTimeout(timer);
    }
  }
}

function toText(value: Parameter): string | null {
  return value === null ? null : String(value);
}

async function loadDriver(): Promise<typeof postgres> {
  const { default: driver } = await import("postgres").catch((cause: unknown) => {
    const detail = "A database on PostgreSQL needs the package postgres: npm install postgres";
    throw new SluiceError("unsupported_database", detail, {}, { cause });
  });
  return driver;
}
