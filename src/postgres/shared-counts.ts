import { Connections } from "./connections.ts";

/** Limits answer within a moment, or each node counts alone. */
const DEADLINE_MS = 2_000;
const UNKNOWN_MS = 1_000;

/** The model requests of one moment, in milliseconds since 1970. */
interface Use {
  readonly time: number;
  readonly requests: number;
  readonly tokens: number;
}

const LEFT = `least($2::float8,
  b.tokens + greatest(0, extract(epoch FROM clock_timestamp() - b.at)) * $3::float8 / 60)`;

/**
 * The counts behind limits by the minute, over all nodes of a database, by its clock (docs/decisions/0136). While the
 * database does not answer, each call fails soon and the node relies on its own counts.
 */
export class SharedCounts {
  readonly #database: Connections;
  readonly #node: string;

  private constructor(database: Connections, node: string) {
    this.#database = database;
    this.#node = node;
  }

  /** Connects with the first call: a server without limits needs no connection. The lease has made the tables. */
  static async create({ url, node }: { url: string; node: string }): Promise<SharedCounts> {
    const database = await Connections.create({ url, max: 2, deadlineMs: DEADLINE_MS, patienceMs: 0 });
    return new SharedCounts(database, node);
  }

  /** Takes a token of a bucket, which `perMinute` tokens a minute fill. Returns 0, or the milliseconds to the next token. */
  async take(name: string, { perMinute, burst }: { perMinute: number; burst: number }): Promise<number> {
    const taken = await this.#database.query(
      `INSERT INTO sluice.rate_buckets AS b VALUES ($1, $2::float8 - 1, clock_timestamp())
       ON CONFLICT (name) DO UPDATE SET tokens = ${LEFT} - 1, at = greatest(b.at, clock_timestamp())
       WHERE ${LEFT} >= 1 RETURNING $3::float8`,
      [name, burst, perMinute],
    );
    if (taken.length > 0) return 0;
    const [row] = await this.#database.query(
      `SELECT (1 - ${LEFT}) * 60000 / $3::float8 AS wait FROM sluice.rate_buckets b WHERE name = $1`,
      [name, burst, perMinute],
    );
    return Math.max(1, Math.ceil(Number(row?.["wait"] ?? UNKNOWN_MS)));
  }

  /** Adds model requests of this node. */
  async note(tenant: string, { time, requests, tokens }: Use): Promise<void> {
    await this.#database.query(
      `WITH old AS (DELETE FROM sluice.model_uses WHERE tenant = $1 AND at < clock_timestamp() - interval '2 minutes')
       INSERT INTO sluice.model_uses
       VALUES ($1, $2, clock_timestamp() - make_interval(secs => $3::float8), $4::int, $5::bigint)`,
      [tenant, this.#node, Math.max(0, Date.now() - time) / 1_000, requests, tokens],
    );
  }

  /** The model requests of the last minute at the other nodes, one row for each second. */
  async others(tenant: string): Promise<Use[]> {
    const rows = await this.#database.query(
      `SELECT min(extract(epoch FROM clock_timestamp() - at)) AS age, sum(requests) AS requests, sum(tokens) AS tokens
       FROM sluice.model_uses WHERE tenant = $1 AND node <> $2 AND at > clock_timestamp() - interval '1 minute'
       GROUP BY date_trunc('second', at)`,
      [tenant, this.#node],
    );
    const now = Date.now();
    return rows.map((row) => ({
      time: now - Math.round(Number(row["age"]) * 1_000),
      requests: Number(row["requests"]),
      tokens: Number(row["tokens"]),
    }));
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}
