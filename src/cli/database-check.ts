import { EventEmitter, once } from "node:events";
import { LOG_TABLES } from "../log/postgres/schema.ts";
import { CATALOG_TABLES } from "../catalog/postgres/schema.ts";
import { nameOf } from "../postgres/address.ts";
import { Connections } from "../postgres/connections.ts";
import { readFacts } from "../postgres/facts.ts";
import { readVersion } from "../postgres/migrations.ts";
import { NODE_TABLES } from "../postgres/node-tables.ts";
import { toSize } from "./terminal/amount.ts";

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
    const found = await readFacts(database.query);
    const { refusal: hint, version, size } = found;
    // Without these rights the checks below fail in PostgreSQL's words, which name no cure.
    if (hint !== undefined) return { ok: false, name, version, size, hint };
    for (const part of [LOG_TABLES, CATALOG_TABLES, NODE_TABLES]) await readVersion(database, part);
    const hears = await probe(directUrl);
    const server = await serverOf(database);
    const facts = { name, version, size, hears, ...(server !== undefined && { server }) };
    const unheard = hears ? [] : ["no notification is heard: give --database-direct if this is a pooler"];
    return { ok: true, ...facts, warnings: [...found.warnings, ...unheard] };
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

/** Whether a notification that is sent here arrives here. */
async function probe(url: string): Promise<boolean> {
  const connections = await Connections.create({ url, max: 2, deadlineMs: 10_000 });
  const channel = `sluice_probe_${process.pid}`;
  try {
    const messages = new EventEmitter();
    const stop = await connections.listen(channel, {
      message: () => messages.emit("heard"),
      connected: () => {},
    });
    const hearing = once(messages, "heard", { signal: AbortSignal.timeout(PROBE_MS) }).then(
      () => true,
      () => false,
    );
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
