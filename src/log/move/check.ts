import { createHash } from "node:crypto";
import { SluiceError } from "../../contract/index.ts";
import type { Connections, Query } from "../../postgres/connections.ts";
import { fromSegment, type Segment } from "../segment.ts";
import type { MovedLog, MovedSession } from "./source.ts";

interface Events {
  readonly count: number;
  readonly digest: string;
}

/**
 * Reads every session on both sides, and fails where they differ in an event. Returns how many events were compared.
 */
export async function checkMoved(
  source: MovedLog,
  database: Connections,
  told: (sessions: number) => void,
): Promise<number> {
  let [sessions, events] = [0, 0];
  for (const session of source.sessions()) {
    const { ordinal } = session;
    const ours = await digest(
      session,
      source.segments(ordinal, session.floor),
      async () => (hash) => source.blob(hash),
    );
    const theirs = await digest(session, readSegments(database.query, session), (part) =>
      readBlobs(database.query, ordinal, part),
    );
    if (ours.count !== theirs.count || ours.digest !== theirs.digest) throw differs(session, ours, theirs);
    sessions += 1;
    events += ours.count;
    told(sessions);
  }
  await compareCounts(source, database, sessions);
  return events;
}

type ReadBlob = (hash: string) => string | undefined;

async function digest(
  { floor }: MovedSession,
  parts: Iterable<Segment[]> | AsyncIterable<Segment[]>,
  blobsOf: (part: readonly Segment[]) => Promise<ReadBlob>,
): Promise<Events> {
  const hash = createHash("sha256");
  let count = 0;
  for await (const part of parts) {
    const read = await blobsOf(part);
    for (const segment of part)
      for (const { sequence, body, raw } of fromSegment(segment, { after: floor, raw: true }, read)) {
        hash.update(`${sequence}\n${body}\n${raw ?? ""}\n`);
        count += 1;
      }
  }
  return { count, digest: hash.digest("hex") };
}

async function* readSegments(query: Query, { ordinal, floor }: MovedSession): AsyncGenerator<Segment[]> {
  for (let after = floor; ;) {
    const rows = await query(
      `SELECT first, last, bodies, raws FROM sluice.segments WHERE session = $1::bigint AND last > $2::bigint
       ORDER BY last LIMIT 32`,
      [ordinal, after],
    );
    if (rows.length === 0) return;
    const part = rows.map((row) => ({
      first: Number(row["first"]),
      last: Number(row["last"]),
      bodies: String(row["bodies"]),
      raws: row["raws"] === null ? null : String(row["raws"]),
    }));
    yield part;
    after = part.at(-1)?.last ?? after;
  }
}

/** The large texts that some segments use, one at a time in memory. */
async function readBlobs(query: Query, ordinal: number, part: readonly Segment[]): Promise<ReadBlob> {
  const [first, last] = [part[0]?.first ?? 0, part.at(-1)?.last ?? 0];
  const isUsed = part.some(({ bodies, raws }) => /^@/m.test(bodies) || /^@/m.test(raws ?? ""));
  if (!isUsed) return () => undefined;
  const rows = await query(
    `SELECT b.hash, b.content FROM sluice.blobs b WHERE b.session = $1::bigint AND EXISTS (
       SELECT 1 FROM sluice.segments g WHERE g.session = b.session AND g.last BETWEEN $2::bigint AND $3::bigint
         AND (position(b.hash IN g.bodies) > 0 OR position(b.hash IN coalesce(g.raws, '')) > 0))`,
    [ordinal, first, last],
  );
  const texts = new Map(
    rows.map((row) => [String(row["hash"]), JSON.parse(String(row["content"])) as string]),
  );
  return (hash) => texts.get(hash);
}

async function compareCounts(source: MovedLog, database: Connections, sessions: number): Promise<void> {
  for (const table of ["sessions", "keys", "turns", "folds", "usage"] as const) {
    const [row] = await database.query(`SELECT count(*) AS count FROM sluice.${table}`);
    const [wanted, found] = [table === "sessions" ? sessions : source.count(table), Number(row?.["count"])];
    if (wanted !== found)
      throw refuse(`The table ${table} of the database has ${found} rows, and ${wanted} belong there.`);
  }
}

function differs({ id }: MovedSession, ours: Events, theirs: Events): SluiceError {
  return refuse(
    `The session ${id} has ${ours.count} events in the folder (digest ${ours.digest.slice(0, 16)}) and ${theirs.count} in the database (digest ${theirs.digest.slice(0, 16)}).`,
  );
}

function refuse(what: string): SluiceError {
  const detail = `The check has failed: ${what} The move is not finished, and no node can start on this database. Drop the schema sluice there (DROP SCHEMA sluice CASCADE) and run \`sluice migrate\` again. The folder was not changed.`;
  return new SluiceError("internal", detail);
}
