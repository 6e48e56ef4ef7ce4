import type { Connections, Parameter } from "../../postgres/connections.ts";
import type { Claim, ListPage, NewSession, Remembered, RestingPage, SessionRow } from "../port.ts";
import { fenced, sessionNotFound } from "../refusals.ts";
import { RETIRED } from "../removed-sessions.ts";
import { type Position, toPosition, toSessionRow } from "../store.ts";
import { joinNumbers, Separated } from "./lists.ts";

const END = Number.MAX_SAFE_INTEGER;

const ROW = `
  SELECT s.ordinal, s.id, s.created_at, s.spec, s.tenant, p.head, p.floor, p.epoch, p.active, p.updated_at, p.process,
    p.spool_offset, p.owner, n.at AS snapshot_at, n.state AS snapshot, c.at AS checkpoint_at, c.state AS checkpoint
  FROM sluice.sessions s
  JOIN sluice.places p ON p.session = s.ordinal
  LEFT JOIN sluice.states n ON n.session = s.ordinal AND n.kind = 'snapshot'
  LEFT JOIN sluice.states c ON c.session = s.ordinal AND c.kind = 'checkpoint' AND c.process = p.process`;

const IS_LISTED = `left(s.id, 1) <> '${RETIRED}'`;

/** The rows of sessions in PostgreSQL; not the appends. */
export class SessionRows {
  readonly #database: Connections;

  constructor(database: Connections) {
    this.#database = database;
  }

  /** Creates all in one transaction; the row is undefined for a session that exists already. */
  async create(sessions: readonly NewSession[]): Promise<(SessionRow | undefined)[]> {
    const unique = new Map<string, NewSession>();
    for (const session of sessions) if (!unique.has(session.id)) unique.set(session.id, session);
    const asked = [...unique.values()];
    const texts = new Separated();
    const columns = [
      texts.join(asked.map(({ id }) => id)),
      joinNumbers(asked.map(({ time }) => time)),
      texts.join(asked.map(({ spec }) => JSON.stringify(spec))),
      joinNumbers(asked.map(({ spec }) => (Number.isFinite(spec.ttl) ? spec.ttl : undefined))),
      texts.join(asked.map(({ tenant }) => tenant)),
      texts.join(asked.map(({ owner }) => owner)),
    ];
    const rows = await this.#database.transact(async (query) => {
      const created = await query(
        `INSERT INTO sluice.sessions (id, created_at, spec, ttl, tenant)
         SELECT id, at, spec, ttl, tenant FROM unnest(string_to_array($1, $6), string_to_array($2, ',')::bigint[],
           string_to_array($3, $6), string_to_array($4, ',', '')::bigint[], string_to_array($5, $6, ''))
           WITH ORDINALITY i(id, at, spec, ttl, tenant, n) ORDER BY n
         ON CONFLICT (id) DO NOTHING RETURNING ordinal, id`,
        [...columns.slice(0, 5), texts.separator].map(String),
      );
      if (created.length === 0) return [];
      const ordinals = joinNumbers(created.map(({ ordinal }) => Number(ordinal)));
      await query(
        `INSERT INTO sluice.places (session, head, floor, epoch, active, updated_at, bytes, owner)
         SELECT s.ordinal, 0, 0, 1 + coalesce(f.epoch, 0), false, s.created_at, 0, i.owner
         FROM unnest(string_to_array($1, $3), string_to_array($2, $3)) i(id, owner)
         JOIN sluice.sessions s ON s.id = i.id AND s.ordinal = ANY (string_to_array($4, ',')::bigint[])
         LEFT JOIN sluice.fences f ON f.id = s.id`,
        [String(columns[0]), String(columns[5]), texts.separator, ordinals],
      );
      for (const { ordinal, id } of created) {
        const key = unique.get(String(id))?.key;
        if (key) await query(ADD_KEY, [Number(ordinal), key.key, key.fingerprint, key.answer]);
      }
      return query(`${ROW} WHERE s.ordinal = ANY (string_to_array($1, ',')::bigint[])`, [ordinals]);
    });
    const found = new Map(rows.map((row) => [String(row["id"]), toSessionRow(row)]));
    return sessions.map((session) =>
      unique.get(session.id) === session ? found.get(session.id) : undefined,
    );
  }

  async find(session: string): Promise<SessionRow | undefined> {
    return (await this.#rows(`${ROW} WHERE s.id = $1`, [session]))[0];
  }

  list({ before = END, limit, tenant }: ListPage): Promise<SessionRow[]> {
    const whose = tenant === undefined ? "" : "AND s.tenant = $3";
    return this.#rows(
      `${ROW} WHERE s.ordinal < $1::bigint AND ${IS_LISTED} ${whose} ORDER BY s.ordinal DESC LIMIT $2::bigint`,
      [before, limit, ...(tenant === undefined ? [] : [tenant])],
    );
  }

  /** The inner query sorts small rows only, without the snapshots. */
  resting({ before, byTtl, after, limit }: RestingPage): Promise<SessionRow[]> {
    const { updatedAt = -1, ordinal = 0 } = after ?? {};
    const isOver = byTtl ? "AND s.ttl IS NOT NULL AND p.updated_at + 1000 * s.ttl < $1::bigint" : "";
    return this.#rows(
      `${ROW} WHERE s.ordinal IN (
         SELECT s.ordinal FROM sluice.sessions s JOIN sluice.places p ON p.session = s.ordinal
         WHERE p.updated_at < $1::bigint AND (p.updated_at, s.ordinal) > ($2::bigint, $3::bigint) AND ${IS_LISTED}
         ${isOver} ORDER BY p.updated_at, s.ordinal LIMIT $4::bigint)
       ORDER BY p.updated_at, s.ordinal`,
      [before, updatedAt, ordinal, limit],
    );
  }

  /** Counts texts. The sizes of tables would include their free space. */
  async size(): Promise<number> {
    const [row] = await this.#database.query("SELECT coalesce(sum(bytes), 0) AS size FROM sluice.places");
    return Number(row?.["size"]);
  }

  active(): Promise<SessionRow[]> {
    return this.#rows(`${ROW} WHERE p.active ORDER BY s.ordinal`);
  }

  retired(): Promise<SessionRow[]> {
    return this.#rows(`${ROW} WHERE NOT ${IS_LISTED} ORDER BY s.ordinal`);
  }

  /** The positions of these sessions that exist. */
  async positions(sessions: readonly string[]): Promise<Map<string, Position>> {
    const texts = new Separated();
    const ids = texts.join(sessions);
    const rows = await this.#database.query(
      `SELECT s.id, s.ordinal, s.created_at, p.head, p.floor FROM sluice.sessions s
       JOIN sluice.places p ON p.session = s.ordinal WHERE s.id = ANY (string_to_array($1, $2))`,
      [ids, texts.separator],
    );
    return new Map(rows.map((row) => [String(row["id"]), toPosition(row)]));
  }

  async claim(session: string, { owner, from, onlyIdle = false }: Claim): Promise<number> {
    const claimed = await this.#database.query(
      `UPDATE sluice.places SET epoch = epoch + 1, owner = $1
       WHERE session = (SELECT ordinal FROM sluice.sessions WHERE id = $2) AND epoch = $3::bigint
         AND (NOT active OR $4::int = 0) RETURNING epoch`,
      [owner, session, from, Number(onlyIdle)],
    );
    const epoch = claimed[0]?.["epoch"];
    if (epoch !== undefined) return Number(epoch);
    const row = await this.find(session);
    if (!row) throw sessionNotFound(session);
    throw fenced(session, { epoch: row.epoch, owner: row.owner, given: from });
  }

  async recall(session: string, key: string): Promise<Remembered | undefined> {
    const [row] = await this.#database.query(
      `SELECT k.fingerprint, k.answer FROM sluice.keys k
       JOIN sluice.sessions s ON s.ordinal = k.session WHERE s.id = $1 AND k.key = $2`,
      [session, key],
    );
    return row && { fingerprint: String(row["fingerprint"]), answer: String(row["answer"]) };
  }

  /** Forgets events up to `through`. The lock on the row in `places` keeps appends out meanwhile. */
  async trim(session: string, through: number): Promise<void> {
    await this.#database.transact(async (query) => {
      const [row] = await query(
        `UPDATE sluice.places SET floor = greatest(floor, least($1::bigint, head))
         WHERE session = (SELECT ordinal FROM sluice.sessions WHERE id = $2) RETURNING session, floor`,
        [through, session],
      );
      if (!row) throw sessionNotFound(session);
      const at = [Number(row["session"]), Number(row["floor"])];
      for (const statement of TRIM) await query(statement, at);
      await query(
        `UPDATE sluice.places SET bytes =
           (SELECT coalesce(sum(bytes), 0) FROM sluice.segments WHERE session = $1::bigint)
           + (SELECT coalesce(sum(bytes), 0) FROM sluice.blobs WHERE session = $1::bigint)
         WHERE session = $1::bigint`,
        at.slice(0, 1),
      );
    });
  }

  async remove(session: string): Promise<void> {
    await this.#database.transact(async (query) => {
      const [row] = await query(
        `DELETE FROM sluice.places WHERE session = (SELECT ordinal FROM sluice.sessions WHERE id = $1)
         RETURNING session, epoch`,
        [session],
      );
      if (!row) throw sessionNotFound(session);
      const ordinal = Number(row["session"]);
      if (!session.startsWith(RETIRED)) await query(ADD_FENCE, [session, Number(row["epoch"])]);
      for (const table of ["segments", "blobs", "turns", "folds", "keys", "states"])
        await query(`DELETE FROM sluice.${table} WHERE session = $1::bigint`, [ordinal]);
      await query("DELETE FROM sluice.sessions WHERE ordinal = $1::bigint", [ordinal]);
    });
  }

  /** Gives the session a name that no client knows, and fences its writers. */
  async retire(session: string, name: string): Promise<void> {
    await this.#database.transact(async (query) => {
      const [row] = await query(
        `UPDATE sluice.places SET epoch = epoch + 1, active = false
         WHERE session = (SELECT ordinal FROM sluice.sessions WHERE id = $1) RETURNING session, epoch`,
        [session],
      );
      if (!row) throw sessionNotFound(session);
      await query(ADD_FENCE, [session, Number(row["epoch"])]);
      await query("UPDATE sluice.sessions SET id = $1 WHERE ordinal = $2::bigint", [
        name,
        Number(row["session"]),
      ]);
    });
  }

  async #rows(statement: string, parameters: readonly Parameter[] = []): Promise<SessionRow[]> {
    return (await this.#database.query(statement, parameters)).map(toSessionRow);
  }
}

const TRIM = [
  "DELETE FROM sluice.segments WHERE session = $1::bigint AND last <= $2::bigint",
  "DELETE FROM sluice.blobs WHERE session = $1::bigint AND last <= $2::bigint",
  "DELETE FROM sluice.turns WHERE session = $1::bigint AND last <= $2::bigint",
  "DELETE FROM sluice.folds WHERE session = $1::bigint AND at < $2::bigint",
];

const ADD_FENCE = `
  INSERT INTO sluice.fences (id, epoch) VALUES ($1, $2::bigint)
  ON CONFLICT (id) DO UPDATE SET epoch = greatest(fences.epoch, excluded.epoch)`;

const ADD_KEY = `
  INSERT INTO sluice.keys (session, key, fingerprint, answer) VALUES ($1::bigint, $2, $3, $4)
  ON CONFLICT DO NOTHING`;
