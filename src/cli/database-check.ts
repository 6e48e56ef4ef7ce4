import { EventEmitter, once } from "node:events";
import { LOG_TABLES } from "../log/postgres/schema.ts";
import { CATALOG_TABLES } from "../catalog/postgres/schema.ts";
import { nameOf } from "../postgres/address.ts";
import { Connections, type Row } from "../postgres/connections.ts";
import { readVersion } from "../postgres/migrations.ts";
import { NODE_TABLES } from "../postgres/node-tables.ts";
import { toSize } from "./terminal/amount.ts";

const OLDEST_MAJOR = 13;
const PROBE_MS = 3_000;

/** The state of a PostgreSQL database for `sluice serve --database`. */
export interface DatabaseDiagnostics {
  readonly ok: boolean;
  /** The reason or the remedy. */
  readonly hint?: string;
  readonly name: string;
  readonly version?: string;
  /** The bytes of the whole database. */
  readonly size?: number;
  /** Whether notifications arrive. Behind a pooler in transaction mode they do not. */
  readonly hears?: boolean;
  /** The names of the servers that use it, as one text. */
  readonly server?: string;
  /** Settings of the database that may lose events or delay them. */
  readonly warnings?: readonly string[];
}

/** Checks version, rights, pooling, standby and tables. Changes nothing. */
export async function checkDatabase(url: string, directUrl = url): Promise<DatabaseDiagnostics> {
  const name = nameOf(url);
  let database: Connections | undefined;
  try {
    database = await Connections.create({ url, max: 2, deadlineMs: 10_000 });
    const [row = {}] = await database.query(FACTS);
    for (const part of [LOG_TABLES, CATALOG_TABLES, NODE_TABLES]) await readVersion(database, part);
    const hears = await probe(directUrl);
    const server = await serverOf(database);
    const facts = {
      name,
      version: String(row["version"]),
      size: Number(row["size"]),
      hears,
      ...(server !== undefined && { server }),
    };
    const hint = refusalOf(row);
    if (hint !== undefined) return { ok: false, ...facts, hint };
    return { ok: true, ...facts, warnings: warningsOf(row, hears) };
  } catch (error) {
    return { ok: false, name, hint: (error as Error).message };
  } finally {
    await database?.close();
  }
}

/** One line for people. */
export function describeDatabase({
  name,
  version,
  size,
  hears,
  server,
  warnings = [],
}: DatabaseDiagnostics): string {
  return [
    name,
    version && `PostgreSQL ${version}`,
    size !== undefined && toSize(size),
    hears === undefined ? undefined : hears ? "notifications are heard" : "polled every second",
    server && `used by ${server}`,
    ...warnings,
  ]
    .filter(Boolean)
    .join(", ");
}

const FACTS = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS is_read_only,
    has_database_privilege(current_database(), 'CREATE') AS may_create,
    CASE WHEN to_regnamespace('sluice') IS NULL THEN true
      ELSE has_schema_privilege('sluice', 'USAGE') END AS may_use,
    to_regnamespace('sluice') IS NOT NULL AS has_schema,
    current_setting('synchronous_commit') AS synchronous, current_setting('fsync') AS fsync,
    (SELECT count(*) FROM pg_stat_replication) AS standbys,
    current_setting('synchronous_standby_names') AS synchronous_names,
    pg_database_size(current_database()) AS size`;

function refusalOf(row: Row): string | undefined {
  if (Math.floor(Number(row["number"]) / 10_000) < OLDEST_MAJOR)
    return `sluice needs PostgreSQL ${OLDEST_MAJOR} or newer`;
  if (row["is_read_only"] === true)
    return "it can only be read: it is a standby, or set to read-only; name the primary server";
  if (row["has_schema"] !== true && row["may_create"] !== true)
    return "the user may not create the schema sluice: GRANT CREATE ON DATABASE … TO …";
  if (row["may_use"] !== true) return "the user may not use the schema sluice, which another user has made";
  return undefined;
}

function warningsOf(row: Row, hears: boolean): string[] {
  const warnings: string[] = [];
  if (row["fsync"] === "off") warnings.push("fsync is off: a power cut loses events");
  if (row["synchronous"] === "off") warnings.push("synchronous_commit is off: a crash loses the last events");
  if (Number(row["standbys"]) > 0 && String(row["synchronous_names"]) === "")
    warnings.push("its standby is asynchronous: a failover loses the last events");
  if (!hears) warnings.push("no notification is heard: give --database-direct if this is a pooler");
  return warnings;
}

/** Whether a notification that is sent here arrives here. */
async function probe(url: string): Promise<boolean> {
  const connections = await Connections.create({ url, max: 2, deadlineMs: 10_000 });
  const channel = `sluice_probe_${process.pid}`;
  try {
    const messages = new EventEmitter();
    const hearing = once(messages, "heard", { signal: AbortSignal.timeout(PROBE_MS) }).then(
      () => true,
      () => false,
    );
    const stop = await connections.listen(channel, {
      message: () => messages.emit("heard"),
      connected: () => {},
    });
    await connections.query("SELECT pg_notify($1, '')", [channel]);
    const isHeard = await hearing;
    await stop().catch(() => {});
    return isHeard;
  } finally {
    await connections.close();
  }
}

async function serverOf(database: Connections): Promise<string | undefined> {
  const [found] = await database.query("SELECT to_regclass('sluice.nodes') IS NOT NULL AS found");
  if (found?.["found"] !== true) return undefined;
  const rows = await database.query(
    "SELECT name FROM sluice.nodes WHERE expires_at > clock_timestamp() ORDER BY started_at",
  );
  return rows.length === 0 ? undefined : rows.map(({ name }) => String(name)).join(" and ");
}
