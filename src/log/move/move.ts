import type { Connections, Query } from "../../postgres/connections.ts";
import { insertRows } from "../../postgres/insert.ts";
import { toContent } from "../postgres/commit.ts";
import { joinGroup, type Segment, toGroups } from "../segment.ts";
import type { MovedLog, MovedSession } from "./source.ts";

export interface MovedCounts {
  sessions: number;
  events: number;
  blobs: number;
  /** Large texts that the folder itself lacks. */
  missing: number;
}

/**
 * Copies all sessions, in their order and with their ordinals. A session that is there already is skipped, unless it has
 * changed; one that was copied in part is continued.
 */
export async function moveLog(
  source: MovedLog,
  database: Connections,
  told: (counts: Readonly<MovedCounts>) => void,
): Promise<MovedCounts> {
  const counts: MovedCounts = { sessions: 0, events: 0, blobs: 0, missing: 0 };
  await database.query(`SELECT setval(pg_get_serial_sequence('sluice.sessions', 'ordinal'), $1::bigint)`, [
    Math.max(1, source.lastOrdinal),
  ]);
  const kept: number[] = [];
  for (const session of source.sessions()) {
    const known = await findSession(database.query, session.ordinal);
    if (known !== undefined && known !== describe(session)) await forget(database, session.ordinal);
    if (known !== describe(session)) await copySession({ source, database, session, counts, told });
    kept.push(session.ordinal);
    counts.sessions += 1;
    counts.events += session.head - session.floor;
    told(counts);
  }
  await forgetOthers(database, kept);
  await database.transact(async (query) => {
    await query("DELETE FROM sluice.usage");
    await insertRows(query, "usage", USAGE, source.all("usage"));
    await query("DELETE FROM sluice.fences");
    await insertRows(query, "fences", { id: "text", epoch: "bigint" }, source.all("fences"));
  });
  const [blobs] = await database.query("SELECT count(*) AS count FROM sluice.blobs");
  return { ...counts, blobs: Number(blobs?.["count"]) };
}

interface Copying {
  readonly source: MovedLog;
  readonly database: Connections;
  readonly session: MovedSession;
  readonly counts: MovedCounts;
  readonly told: (counts: Readonly<MovedCounts>) => void;
}

/** The rows of the session itself come last: until then nobody finds the others. */
async function copySession({ source, database, session, counts, told }: Copying): Promise<void> {
  const { ordinal, floor, head } = session;
  const [found] = await database.query(
    "SELECT max(last) AS last FROM sluice.segments WHERE session = $1::bigint",
    [ordinal],
  );
  let after = Number(found?.["last"] ?? 0);
  if (after > head) {
    await forget(database, ordinal);
    after = 0;
  }
  for (const part of source.segments(ordinal, Math.max(after, floor))) {
    const lengths = await copyBlobs({ source, database, session, counts, told }, part);
    await insertRows(
      database.query,
      "segments",
      SEGMENTS,
      toRows(ordinal, part, lengths),
      "ON CONFLICT DO NOTHING",
    );
    told({ ...counts, events: counts.events + (part.at(-1)?.last ?? 0) - floor });
  }
  await database.transact(async (query) => {
    for (const table of ["states", "keys", "turns", "folds"] as const) {
      await query(`DELETE FROM sluice.${table} WHERE session = $1::bigint`, [ordinal]);
      await insertRows(query, table, KEPT[table], source.rows(table, ordinal));
    }
    await insertRows(query, "sessions", SESSION, [{ ...session, ttl: ttlOf(session.spec) }]);
    await insertRows(query, "places", PLACE, [
      { ...session, session: ordinal, active: session.active === 1, bytes: 0 },
    ]);
    await query(
      `UPDATE sluice.places SET bytes =
         (SELECT coalesce(sum(bytes), 0) FROM sluice.segments WHERE session = $1::bigint)
         + (SELECT coalesce(sum(bytes), 0) FROM sluice.blobs WHERE session = $1::bigint)
       WHERE session = $1::bigint`,
      [ordinal],
    );
  });
}

/** Copies the large texts of some segments. Returns the length of those of each segment, by its last sequence. */
async function copyBlobs(
  { source, database, session: { ordinal }, counts }: Copying,
  part: readonly Segment[],
): Promise<Map<number, number>> {
  const lengths = new Map<number, number>();
  const known = new Map<string, number>();
  const [first, last] = [part[0]?.first ?? 1, part.at(-1)?.last ?? 0];
  for (const use of source.uses(ordinal, first - 1, last)) {
    let length = known.get(use.hash);
    if (length === undefined) {
      const text = source.blob(use.hash);
      if (text === undefined) counts.missing += 1;
      else
        await database.query(
          `INSERT INTO sluice.blobs (session, hash, last, bytes, content)
           SELECT $1::bigint, $2, $3::bigint, octet_length(content), content FROM (SELECT $4::text AS content) n
           ON CONFLICT (session, hash) DO UPDATE SET last = greatest(blobs.last, excluded.last)`,
          [ordinal, use.hash, last, toContent(text)],
        );
      length = text?.length ?? 0;
      known.set(use.hash, length);
    }
    lengths.set(use.last, (lengths.get(use.last) ?? 0) + length);
  }
  return lengths;
}

function* toRows(
  session: number,
  part: readonly Segment[],
  lengths: ReadonlyMap<number, number>,
): Generator<Record<string, unknown>> {
  for (const group of toGroups(part)) {
    const segment = joinGroup(group);
    const blob_bytes = group.reduce((sum, { last }) => sum + (lengths.get(last) ?? 0), 0);
    yield { session, ...segment, bytes: segment.bodies.length + (segment.raws?.length ?? 0), blob_bytes };
  }
}

/** The session as it was copied, in one text; undefined where it is not there wholly. */
async function findSession(query: Query, ordinal: number): Promise<string | undefined> {
  const [row] = await query(
    `SELECT s.id, s.created_at, s.spec, s.tenant, p.head, p.floor, p.epoch, p.active::int AS active, p.updated_at,
       p.process, p.spool_offset, p.owner, s.ordinal
     FROM sluice.sessions s JOIN sluice.places p ON p.session = s.ordinal WHERE s.ordinal = $1::bigint`,
    [ordinal],
  );
  return row && describe(row as unknown as MovedSession);
}

/** Numbers of PostgreSQL may be texts. */
function describe(session: MovedSession): string {
  const columns = Object.entries(session).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify(columns.map(([name, value]) => [name, value === null ? null : String(value)]));
}

async function forget(database: Connections, ordinal: number): Promise<void> {
  await database.transact(async (query) => {
    for (const table of ["places", "segments", "blobs", "turns", "folds", "keys", "states"])
      await query(`DELETE FROM sluice.${table} WHERE session = $1::bigint`, [ordinal]);
    await query("DELETE FROM sluice.sessions WHERE ordinal = $1::bigint", [ordinal]);
  });
}

/** The folder may have lost sessions since the move began. */
async function forgetOthers(database: Connections, kept: readonly number[]): Promise<void> {
  const others = await database.query(
    `SELECT DISTINCT session FROM (SELECT session FROM sluice.segments UNION SELECT session FROM sluice.places) n
     WHERE session <> ALL (string_to_array($1, ',')::bigint[])`,
    [kept.join(",")],
  );
  for (const row of others) await forget(database, Number(row["session"]));
}

/** A damaged spec has none. */
function ttlOf(spec: string): number | null {
  try {
    const { ttl } = JSON.parse(spec) as { ttl?: unknown };
    return Number.isSafeInteger(ttl) ? Number(ttl) : null;
  } catch {
    return null;
  }
}

const SESSION = {
  ordinal: "bigint",
  id: "text",
  created_at: "bigint",
  spec: "text",
  ttl: "bigint",
  tenant: "text",
};

const PLACE = {
  session: "bigint",
  head: "bigint",
  floor: "bigint",
  epoch: "bigint",
  active: "boolean",
  updated_at: "bigint",
  process: "bigint",
  spool_offset: "bigint",
  bytes: "bigint",
  owner: "text",
};

const SEGMENTS = {
  session: "bigint",
  first: "bigint",
  last: "bigint",
  bytes: "bigint",
  blob_bytes: "bigint",
  bodies: "text",
  raws: "text",
};

const KEPT = {
  states: { session: "bigint", kind: "text", at: "bigint", process: "bigint", state: "text" },
  keys: { session: "bigint", key: "text", fingerprint: "text", answer: "text" },
  turns: { session: "bigint", last: "bigint", began: "bigint", outline: "text" },
  folds: { session: "bigint", at: "bigint", state: "text" },
};

const USAGE = {
  tenant: "text",
  day: "text",
  ordinal: "bigint",
  session: "text",
  model: "text",
  provider: "text",
  price: "text",
  requests: "bigint",
  input: "bigint",
  output: "bigint",
  cache_read: "bigint",
  cache_write: "bigint",
  reasoning: "bigint",
  usd: "double precision",
};
