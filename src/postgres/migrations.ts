import { SluiceError } from "../contract/index.ts";
import type { Connections, Query } from "./connections.ts";

/** One step of a part's tables. A released step is never edited: the next change is a new step. */
export interface Step {
  readonly sql: string;
  /** The oldest version whose build can still work with the tables after this step. */
  readonly readableBy: number;
}

/** The tables of one part, such as the log. Versions count its steps from 1. */
export interface Part {
  readonly name: string;
  readonly steps: readonly Step[];
}

/** Identifies sluice among the advisory locks of a database: "SLUI". */
const LOCK = 0x53_4c_55_49;

/** Brings a part's tables up to date, all or nothing. Only one process of all nodes does it at a time. */
export async function migrate(connections: Connections, part: Part): Promise<void> {
  if ((await readVersion(connections, part)).version >= part.steps.length) return;
  await connections.transact(async (query) => {
    await query(`SELECT pg_advisory_xact_lock(${LOCK})`);
    await query("CREATE SCHEMA IF NOT EXISTS sluice");
    await query(
      "CREATE TABLE IF NOT EXISTS sluice.meta (part text PRIMARY KEY, version int NOT NULL, readable_by int NOT NULL)",
    );
    const { version } = await check(query, part, connections.name);
    const missing = part.steps.slice(version);
    for (const { sql } of missing)
      for (const statement of sql.split(/;\s*\n/)) if (statement.trim() !== "") await query(statement);
    await query(
      `INSERT INTO sluice.meta (part, version, readable_by) VALUES ($1, $2::int, $3::int)
       ON CONFLICT (part) DO UPDATE SET version = excluded.version, readable_by = excluded.readable_by`,
      [part.name, version + missing.length, part.steps.at(-1)?.readableBy ?? 1],
    );
  });
}

/** The version of a part's tables; 0 where there are none. Fails for a version that this build cannot work with. */
export async function readVersion(
  connections: Connections,
  part: Part,
): Promise<{ readonly version: number; readonly readableBy: number }> {
  const [found] = await connections.query("SELECT to_regclass('sluice.meta') IS NOT NULL AS found");
  if (found?.["found"] !== true) return { version: 0, readableBy: 0 };
  return check(connections.query, part, connections.name);
}

async function check(
  query: Query,
  part: Part,
  name: string,
): Promise<{ version: number; readableBy: number }> {
  const [row] = await query("SELECT version, readable_by FROM sluice.meta WHERE part = $1", [part.name]);
  const version = Number(row?.["version"] ?? 0);
  const readableBy = Number(row?.["readable_by"] ?? 0);
  const known = part.steps.length;
  if (readableBy <= known) return { version, readableBy };
  const detail = `The ${part.name} in the database ${name} is of version ${version} and needs a sluice that knows version ${readableBy}; this build knows version ${known}. Upgrade this sluice, or use another database. Nothing was changed.`;
  throw new SluiceError("data_version", detail, { database: name, found: version, known });
}
