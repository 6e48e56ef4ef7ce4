import type { Query, Row } from "./connections.ts";

const OLDEST_MAJOR = 13;

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

/** A database's settings and the user's rights, judged for a server. */
export interface DatabaseFacts {
  readonly version: string;
  /** The bytes of the whole database. */
  readonly size: number;
  /** Why a server cannot work with it. */
  readonly refusal: string | undefined;
  /** Settings that may lose events. */
  readonly warnings: readonly string[];
}

/** Changes nothing. */
export async function readFacts(query: Query): Promise<DatabaseFacts> {
  const [row = {}] = await query(FACTS);
  return {
    version: String(row["version"]),
    size: Number(row["size"]),
    refusal: refusalOf(row),
    warnings: warningsOf(row),
  };
}

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

function warningsOf(row: Row): string[] {
  const warnings: string[] = [];
  const synchronous = String(row["synchronous"]);
  if (row["fsync"] === "off") warnings.push("fsync is off: a power cut loses events");
  if (synchronous === "off") warnings.push("synchronous_commit is off: a crash loses the last events");
  const waits = String(row["synchronous_names"]) !== "" && !["off", "local"].includes(synchronous);
  if (Number(row["standbys"]) > 0 && !waits)
    warnings.push("its standby is asynchronous: a failover loses the last events");
  return warnings;
}
