import type { Driver, Statement } from "../../sqlite/driver.ts";
import { RETIRED } from "../removed-sessions.ts";

const ROW = `
  SELECT s.ordinal, s.id, s.created_at, s.spec, s.tenant, p.head, p.floor, p.epoch, p.active, p.updated_at, p.process,
    p.spool_offset, p.owner, n.at AS snapshot_at, n.state AS snapshot, c.at AS checkpoint_at, c.state AS checkpoint
  FROM sessions s
  JOIN places p ON p.session = s.ordinal
  LEFT JOIN states n ON n.session = s.ordinal AND n.kind = 'snapshot'
  LEFT JOIN states c ON c.session = s.ordinal AND c.kind = 'checkpoint' AND c.process = p.process`;

const SEGMENTS = (raws: string): string => `
  SELECT first, last, bodies, ${raws} AS raws FROM segments
  WHERE session = ?1 AND last > ?2 AND last <= coalesce(
    (SELECT last FROM segments WHERE session = ?1 AND last >= ?3 ORDER BY last LIMIT 1), 9007199254740991)
  ORDER BY last LIMIT 16`;

/** Has to be exactly the expression of the index, else SQLite does not use it. A damaged spec has no ttl. */
const TTL = "CASE WHEN json_valid(s.spec) THEN json_extract(s.spec, '$.ttl') END";

/** The inner query sorts small rows only, without the snapshots. */
const RESTING = (more: string): string => `
  ${ROW} WHERE s.ordinal IN (
    SELECT s.ordinal FROM sessions s JOIN places p ON p.session = s.ordinal
    WHERE p.updated_at < ?1 AND (p.updated_at, s.ordinal) > (?2, ?3) AND s.id NOT GLOB '${RETIRED}*' ${more}
    ORDER BY p.updated_at, s.ordinal LIMIT ?4)
  ORDER BY p.updated_at, s.ordinal`;

/** Sums of the columns of `usage`. */
const SUMS = ["requests", "input", "output", "cache_read", "cache_write", "reasoning", "usd"]
  .map((name) => `sum(${name}) AS ${name}`)
  .join(", ");

const SQL = {
  version: "PRAGMA data_version",

  addSession:
    "INSERT INTO sessions (id, created_at, spec, tenant) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
  addPosition: `
    INSERT INTO places (session, head, floor, epoch, active, updated_at, owner)
    SELECT ordinal, 0, 0, 1 + coalesce((SELECT epoch FROM fences f WHERE f.id = s.id), 0), 0, created_at, ?
    FROM sessions s WHERE s.id = ?`,
  addFence: `
    INSERT OR REPLACE INTO fences (id, epoch)
    SELECT s.id, p.epoch FROM sessions s JOIN places p ON p.session = s.ordinal
    WHERE s.ordinal = ? AND s.id NOT GLOB '${RETIRED}*'`,
  find: `${ROW} WHERE s.id = ?`,
  list: `${ROW} WHERE s.ordinal < ? AND s.id NOT GLOB '${RETIRED}*' ORDER BY s.ordinal DESC LIMIT ?`,
  listOf: `
    ${ROW} WHERE s.tenant = ? AND s.ordinal < ? AND s.id NOT GLOB '${RETIRED}*' ORDER BY s.ordinal DESC LIMIT ?`,
  retired: `${ROW} WHERE s.id GLOB '${RETIRED}*' ORDER BY s.ordinal`,
  resting: RESTING(""),
  expired: RESTING(`
    AND ${TTL} IS NOT NULL AND p.updated_at + 1000 * ${TTL} < ?1`),
  size: `
    SELECT (page_count - freelist_count) * page_size AS size
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size`,
  active: `${ROW} WHERE s.ordinal IN (SELECT session FROM places WHERE active = 1) ORDER BY s.ordinal`,
  position: `
    SELECT s.ordinal, s.created_at, p.head, p.floor FROM sessions s
    JOIN places p ON p.session = s.ordinal WHERE s.id = ?`,
  strayed: `
    SELECT b.value ->> 0 AS id FROM json_each(?) b
    LEFT JOIN sessions s ON s.id = b.value ->> 0 LEFT JOIN places p ON p.session = s.ordinal
    WHERE (p.session, p.head, p.floor) IS NOT (b.value ->> 1, b.value ->> 2, b.value ->> 3)`,
  lease: "SELECT head, epoch, owner FROM places WHERE session = ?",

  claim: `
    UPDATE places SET epoch = epoch + 1, owner = ?
    WHERE session = (SELECT ordinal FROM sessions WHERE id = ?) AND epoch = ? AND active <= ?`,
  // The fence is part of the write: an old epoch matches no row.
  move: `
    UPDATE places SET head = ?, updated_at = ?, active = coalesce(?, active),
      process = coalesce(?, process), spool_offset = coalesce(?, spool_offset)
    WHERE session = ? AND epoch = ? AND head = ?`,
  addSegment: "INSERT INTO segments (session, first, last, bodies, raws) VALUES (?, ?, ?, ?, ?)",
  setState: "INSERT OR REPLACE INTO states (session, kind, at, process, state) VALUES (?, ?, ?, ?, ?)",
  addKey: "INSERT OR IGNORE INTO keys (session, key, fingerprint, answer) VALUES (?, ?, ?, ?)",
  recall: `
    SELECT k.fingerprint, k.answer FROM keys k
    JOIN sessions s ON s.ordinal = k.session WHERE s.id = ? AND k.key = ?`,

  segments: SEGMENTS("NULL"),
  segmentsWithRaws: SEGMENTS("raws"),

  turns: "SELECT last, began, outline FROM turns WHERE session = ? AND last < ? ORDER BY last DESC LIMIT ?",
  foldAt: "SELECT at, state FROM folds WHERE session = ? AND at <= ? ORDER BY at DESC LIMIT 1",
  addTurn: "INSERT OR IGNORE INTO turns (session, last, began, outline) VALUES (?, ?, ?, ?)",
  addFold: "INSERT OR IGNORE INTO folds (session, at, state) VALUES (?, ?, ?)",
  dropTurns: "DELETE FROM turns WHERE session = ? AND last <= ?",
  dropFolds: "DELETE FROM folds WHERE session = ? AND at < ?",

  // The id and the tenant are copied, because the rows stay when the session is deleted.
  addUsage: `
    INSERT INTO usage (tenant, session, ordinal, day, model, provider, price,
      requests, input, output, cache_read, cache_write, reasoning, usd)
    SELECT coalesce(tenant, ''), id, ordinal, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM sessions WHERE ordinal = ?
    ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, input = input + excluded.input,
      output = output + excluded.output, cache_read = cache_read + excluded.cache_read,
      cache_write = cache_write + excluded.cache_write, reasoning = reasoning + excluded.reasoning,
      usd = usd + excluded.usd`,
  usage: `
    SELECT tenant, session, day, model, provider, price, ${SUMS} FROM usage
    WHERE (? IS NULL OR tenant = ?) AND (? IS NULL OR session = ?) AND (? IS NULL OR model = ?)
      AND day >= ? AND day <= ?
    GROUP BY day, session, model, provider, price, tenant ORDER BY day, session, model, provider, price`,
  usageTotal: `
    SELECT ${SUMS}, sum(CASE WHEN price = 'unknown' THEN requests ELSE 0 END) AS unknown
    FROM usage WHERE tenant = ?`,

  raiseFloor: "UPDATE places SET floor = max(floor, min(?, head)) WHERE session = ?",
  dropSegments: "DELETE FROM segments WHERE session = ? AND last <= ?",
  dropUses: "DELETE FROM blob_uses WHERE session = ? AND last <= ?",
  dropKeys: "DELETE FROM keys WHERE session = ?",
  dropStates: "DELETE FROM states WHERE session = ?",
  dropPosition: "DELETE FROM places WHERE session = ?",
  rename: "UPDATE sessions SET id = ? WHERE ordinal = ?",
  fencePosition: "UPDATE places SET epoch = epoch + 1, active = 0 WHERE session = ?",
  dropSession: "DELETE FROM sessions WHERE ordinal = ?",

  addUse: "INSERT OR IGNORE INTO blob_uses (session, last, hash) VALUES (?, ?, ?)",
  isUsed: "SELECT 1 AS used FROM blob_uses WHERE hash = ? LIMIT 1",
  addDoubt: "INSERT OR IGNORE INTO blob_doubts (hash) VALUES (?)",
  doubtUses: `
    INSERT OR IGNORE INTO blob_doubts (hash) SELECT hash FROM blob_uses WHERE session = ? AND last <= ?`,
  dropDoubt: "DELETE FROM blob_doubts WHERE hash = ?",
  doubts: "SELECT hash FROM blob_doubts",
} as const;

export type Statements = Readonly<Record<keyof typeof SQL, Statement>>;

/** All statements of the log after its database is open. */
export function prepareStatements(driver: Driver): Statements {
  const entries = Object.entries(SQL).map(([name, sql]) => [name, driver.prepare(sql)] as const);
  return Object.fromEntries(entries) as Record<keyof typeof SQL, Statement>;
}
