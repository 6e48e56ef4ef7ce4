import { createHash } from "node:crypto";
import type { Driver, Row, Statement } from "../../sqlite/driver.ts";
import { openReadOnly } from "../../sqlite/open.ts";
import { RETIRED } from "../removed-sessions.ts";
import type { Segment } from "../segment.ts";
import { BlobFiles } from "../sqlite/blobs.ts";
import { toLogSchema } from "../sqlite/migrations.ts";

/** About how much text of segments is read at a time. */
const TEXT_LENGTH = 2 * 1024 * 1024;
const SEGMENTS = 512;

/** The small columns of a session that is moved. */
export interface MovedSession {
  readonly ordinal: number;
  readonly id: string;
  readonly created_at: number;
  readonly spec: string;
  readonly tenant: string | null;
  readonly head: number;
  readonly floor: number;
  readonly epoch: number;
  readonly active: number;
  readonly updated_at: number;
  readonly process: number | null;
  readonly spool_offset: number | null;
  readonly owner: string;
}

const SESSIONS = `
  SELECT s.ordinal, s.id, s.created_at, s.spec, s.tenant, p.head, p.floor, p.epoch, p.active, p.updated_at, p.process,
    p.spool_offset, p.owner
  FROM sessions s JOIN places p ON p.session = s.ordinal WHERE s.id NOT GLOB '${RETIRED}*'`;

/** One state of a log on SQLite, read without a change of its files. Retired sessions are left out: they are removed. */
export class MovedLog {
  readonly #driver: Driver;
  readonly #blobs: BlobFiles;
  readonly #segments: Statement;
  readonly #uses: Statement;

  constructor(folder: string) {
    this.#driver = openReadOnly({ folder, file: "log.db", schema: toLogSchema({ folder }) });
    this.#blobs = new BlobFiles(folder, { sync: false });
    this.#segments = this.#driver.prepare(
      `SELECT first, last, bodies, raws FROM segments WHERE session = ? AND last > ? ORDER BY last LIMIT ${SEGMENTS}`,
    );
    this.#uses = this.#driver.prepare(
      "SELECT last, hash FROM blob_uses WHERE session = ? AND last > ? AND last <= ?",
    );
  }

  /** The same for every copy of the folder, and for no other folder: the moment in which the log was made. */
  get identity(): string {
    return this.#digest("SELECT version, applied_at FROM migrations ORDER BY version LIMIT 1");
  }

  /** Changes with every write to the log. */
  get fingerprint(): string {
    return this.#digest(`
      SELECT s.ordinal, s.id, s.created_at, p.head, p.floor, p.epoch, p.updated_at, p.active FROM sessions s
      JOIN places p ON p.session = s.ordinal ORDER BY s.ordinal`);
  }

  *sessions(): Generator<MovedSession> {
    const page = this.#driver.prepare(`${SESSIONS} AND s.ordinal > ? ORDER BY s.ordinal LIMIT 100`);
    for (let after = 0; ;) {
      const rows = page.all(after) as unknown as MovedSession[];
      yield* rows;
      const last = rows.at(-1);
      if (!last) return;
      after = last.ordinal;
    }
  }

  /** The segments after a sequence, some at a time. */
  *segments(ordinal: number, from: number): Generator<Segment[]> {
    for (let after = from; ;) {
      let part: Segment[] = [];
      let length = 0;
      const rows = this.#segments.all(ordinal, after) as unknown as Segment[];
      for (const row of rows) {
        const segment = { ...row, raws: row.raws === null ? null : withoutNul(row.raws) };
        part.push(segment);
        length += segment.bodies.length + (segment.raws?.length ?? 0);
        after = segment.last;
        if (length < TEXT_LENGTH) continue;
        yield part;
        part = [];
        length = 0;
      }
      if (part.length > 0) yield part;
      if (rows.length < SEGMENTS) return;
    }
  }

  /** The large texts of the segments after one sequence and up to another. */
  uses(ordinal: number, after: number, through: number): { last: number; hash: string }[] {
    return this.#uses.all(ordinal, after, through) as unknown as { last: number; hash: string }[];
  }

  /** Undefined where the file is missing or damaged. */
  blob(hash: string): string | undefined {
    return this.#blobs.read(hash);
  }

  /** All rows of a table, or those of one session. */
  rows(table: "states" | "keys" | "turns" | "folds", session: number): Row[] {
    return this.#driver.prepare(`SELECT * FROM ${table} WHERE session = ?`).all(session);
  }

  all(table: "usage" | "fences"): Row[] {
    return this.#driver.prepare(`SELECT * FROM ${table}`).all();
  }

  /** The last ordinal that was ever given to a session. */
  get lastOrdinal(): number {
    const row = this.#driver
      .prepare("SELECT max(seq) AS last FROM sqlite_sequence WHERE name = 'sessions'")
      .get();
    return Number(row?.["last"] ?? 0);
  }

  count(table: "keys" | "turns" | "folds" | "usage"): number {
    const of =
      table === "usage" ? "" : "WHERE session IN (SELECT ordinal FROM sessions WHERE id NOT GLOB '~*')";
    return Number(this.#driver.prepare(`SELECT count(*) AS count FROM ${table} ${of}`).get()?.["count"]);
  }

  close(): void {
    this.#driver.close();
  }

  #digest(statement: string): string {
    const hash = createHash("sha256");
    for (const row of this.#driver.prepare(statement).all()) hash.update(JSON.stringify(Object.values(row)));
    return hash.digest("hex");
  }
}

/** Logs of older versions may hold native lines with U+0000, which a text of PostgreSQL cannot hold. */
function withoutNul(raws: string): string {
  if (!raws.includes("\0")) return raws;
  const entries = raws.split("\n");
  return entries.map((entry) => (entry.includes("\0") ? `!${JSON.stringify(entry)}` : entry)).join("\n");
}
