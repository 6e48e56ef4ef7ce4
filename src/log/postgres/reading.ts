import type { Connections, Row } from "../../postgres/connections.ts";
import { Checked, Page } from "../page.ts";
import type { ReadRange, StoredEvent } from "../port.ts";
import { cursorGone, sessionNotFound } from "../refusals.ts";
import { toRetiredName } from "../removed-sessions.ts";
import type { Segment } from "../segment.ts";
import { type Position, toPosition } from "../store.ts";
import { Separated } from "./lists.ts";

/** The most text of large strings that is read at a time. */
const BLOB_LENGTH = 8 * 1024 * 1024;

const SEGMENTS = (ordinal: string): string => `
  SELECT first, last, blob_bytes, bodies, CASE WHEN $3::int = 1 THEN raws END AS raws FROM sluice.segments g
  WHERE g.session = ${ordinal} AND g.last > $1::bigint AND g.last <= coalesce(
    (SELECT last FROM sluice.segments WHERE session = ${ordinal} AND last >= $1::bigint + $2::bigint
     ORDER BY last LIMIT 1), 9007199254740991)
  ORDER BY g.last LIMIT 16`;

/** Reads pages of history. The first part of a page costs one round trip, unless it has large texts. */
export class PageReader {
  readonly #database: Connections;
  readonly #checked = new Checked();

  constructor(database: Connections) {
    this.#database = database;
  }

  async read(session: string, range: ReadRange): Promise<{ events: StoredEvent[]; position: Position }> {
    const { after, limit, raw = false, ordinal } = range;
    const wanted = { after, limit: range.types ? 8192 : limit, raw };
    const rows = await this.#first(session, wanted, ordinal);
    const [row] = rows;
    if (!row) throw sessionNotFound(session);
    const position = toPosition(row);
    if (after < position.floor || after > position.head) throw cursorGone(session, after, position);
    let segments: Segment[] = [];
    const blobs = new Map<string, string>();
    const page = new Page(
      { segments: () => segments, blob: (hash) => blobs.get(hash) },
      { id: session, position, checked: this.#checked },
      range,
    );
    for (let found = rows.filter((each) => each["last"] !== null); ;) {
      segments = await this.#withBlobs(position.ordinal, found, blobs);
      page.readOn();
      if (page.isWhole) return { events: page.events, position };
      blobs.clear();
      const next = page.wanted;
      found = await this.#database.query(SEGMENTS("$4::bigint"), [
        next.after,
        next.limit,
        Number(next.raw),
        position.ordinal,
      ]);
      // Events were trimmed meanwhile. The reader of the next page learns it.
      if (Number(found[0]?.["first"] ?? 0) > next.after + 1) return { events: page.events, position };
    }
  }

  /** The session's position beside its segments; one row without a segment where there are none. */
  #first(
    session: string,
    wanted: { after: number; limit: number; raw: boolean },
    ordinal: number | undefined,
  ): Promise<Row[]> {
    const isWanted = ordinal === undefined ? "s.id = $4" : "s.ordinal = $5::bigint AND s.id IN ($4, $6)";
    const more = ordinal === undefined ? [] : [ordinal, toRetiredName(ordinal)];
    return this.#database.query(
      `SELECT s.ordinal, s.created_at, p.head, p.floor, g.* FROM sluice.sessions s
       JOIN sluice.places p ON p.session = s.ordinal
       LEFT JOIN LATERAL (${SEGMENTS("s.ordinal")}) g ON true
       WHERE ${isWanted} ORDER BY g.last`,
      [wanted.after, wanted.limit, Number(wanted.raw), session, ...more],
    );
  }

  /** The segments whose large texts fit into memory, at least one of them, with these texts. */
  async #withBlobs(ordinal: number, rows: readonly Row[], blobs: Map<string, string>): Promise<Segment[]> {
    const segments: Segment[] = [];
    const hashes = new Set<string>();
    let length = 0;
    for (const row of rows) {
      const size = Number(row["blob_bytes"]);
      if (segments.length > 0 && length + size > BLOB_LENGTH) break;
      length += size;
      const raws = row["raws"] === null ? null : String(row["raws"]);
      const segment = {
        first: Number(row["first"]),
        last: Number(row["last"]),
        bodies: String(row["bodies"]),
        raws,
      };
      segments.push(segment);
      if (size > 0) for (const hash of hashesOf(segment)) hashes.add(hash);
    }
    if (hashes.size === 0) return segments;
    const texts = new Separated();
    const found = await this.#database.query(
      `SELECT hash, content FROM sluice.blobs
       WHERE session = $1::bigint AND hash = ANY (string_to_array($2, $3))`,
      [ordinal, texts.join([...hashes]), texts],
    );
    for (const row of found) blobs.set(String(row["hash"]), JSON.parse(String(row["content"])) as string);
    return segments;
  }
}

/** The hashes in a segment's outlines. Some may be ordinary text that looks like one: they match no row. */
function hashesOf({ bodies, raws }: Segment): string[] {
  const found: string[] = [];
  for (const line of bodies.split("\n"))
    if (line.startsWith("@"))
      for (const [, hash] of line.slice(0, line.indexOf(" ")).matchAll(/:([0-9a-f]{64})/g))
        if (hash !== undefined) found.push(hash);
  for (const line of raws?.split("\n") ?? []) if (/^@[0-9a-f]{64}$/.test(line)) found.push(line.slice(1));
  return found;
}
