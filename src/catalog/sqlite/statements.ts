import type { Driver, Row, Statement, Value } from "../../sqlite/driver.ts";
import type { ListQuery } from "../port.ts";

const SQL = {
  find: "SELECT * FROM documents WHERE owner = ? AND kind = ? AND id = ?",
  // Jumps in the index from tenant to tenant, so the cost does not depend on the number of documents.
  tenantsOf: `
    WITH RECURSIVE owners (name) AS (
      SELECT min(owner) FROM documents
      UNION ALL SELECT (SELECT min(owner) FROM documents WHERE owner > owners.name) FROM owners
      WHERE owners.name IS NOT NULL
    )
    SELECT d.owner FROM owners CROSS JOIN documents d ON d.owner = owners.name AND d.kind = ? AND d.id = ?`,
  children: "SELECT * FROM documents WHERE owner = ? AND parent = ?",
  keyHolder: "SELECT ordinal FROM documents WHERE owner = ? AND kind = ? AND unique_key = ?",
  newestTime: "SELECT created_at FROM documents ORDER BY ordinal DESC LIMIT 1",
  add: `
    INSERT INTO documents (owner, kind, id, parent, revision, created_at, updated_at, archived, unique_key, labels,
      bytes_until, body)
    VALUES (?1, ?2, ?3, ?4, 1, ?5, ?5, ?6, ?7, ?8, ?9, ?10)`,
  replace: `
    UPDATE documents SET revision = revision + 1, updated_at = max(updated_at, ?), archived = ?, unique_key = ?,
      labels = ?, bytes_until = ?, body = ?
    WHERE ordinal = ?`,
  remove: "DELETE FROM documents WHERE ordinal = ?",

  addLabel: "INSERT INTO labels (owner, kind, name, value, document) VALUES (?, ?, ?, ?, ?)",
  dropLabels: "DELETE FROM labels WHERE document = ?",
  setSecret: "INSERT OR REPLACE INTO secrets (document, sealed) VALUES (?, ?)",
  dropSecret: "DELETE FROM secrets WHERE document = ?",
  secret: `
    SELECT s.sealed FROM secrets s JOIN documents d ON d.ordinal = s.document
    WHERE d.owner = ? AND d.kind = ? AND d.id = ?`,

  addUse: "INSERT OR IGNORE INTO byte_uses (document, hash) VALUES (?, ?)",
  doubtUses: "INSERT OR IGNORE INTO byte_doubts (hash) SELECT hash FROM byte_uses WHERE document = ?",
  dropUses: "DELETE FROM byte_uses WHERE document = ?",
  expiring: "SELECT ordinal FROM documents WHERE bytes_until <= ?",
  stopExpiring: "UPDATE documents SET bytes_until = NULL WHERE ordinal = ?",
  addHold: "INSERT INTO byte_holds (hash, until) VALUES (?, ?) RETURNING id",
  dropHold: "DELETE FROM byte_holds WHERE id = ?",
  dropOldHolds: "DELETE FROM byte_holds WHERE until <= ?",
  addDoubt: "INSERT OR IGNORE INTO byte_doubts (hash) VALUES (?)",
  dropDoubt: "DELETE FROM byte_doubts WHERE hash = ?",
  doubts: "SELECT hash FROM byte_doubts",
  isUsed: "SELECT 1 AS used FROM byte_uses WHERE hash = ? LIMIT 1",
  isHeld: "SELECT 1 AS held FROM byte_holds WHERE hash = ? LIMIT 1",
} as const;

export type Statements = Readonly<Record<keyof typeof SQL, Statement>>;

/** All statements of the catalog except the lists. */
export function prepareStatements(driver: Driver): Statements {
  const entries = Object.entries(SQL).map(([name, sql]) => [name, driver.prepare(sql)] as const);
  return Object.fromEntries(entries) as Record<keyof typeof SQL, Statement>;
}

/** The statements of lists. The filters of a query decide its SQL text, and each text is prepared once. */
export class Listing {
  readonly #driver: Driver;
  readonly #statements = new Map<string, Statement>();

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  read(tenant: string, query: ListQuery): Row[] {
    const { sql, values } = toListSql(tenant, query);
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#driver.prepare(sql)));
    return statement.all(...values);
  }
}

export function toListSql(tenant: string, query: ListQuery): { sql: string; values: Value[] } {
  const { kind, parent, order = "asc", after, limit, archived, ids, labels = {}, created = {} } = query;
  const [label, ...otherLabels] = Object.entries(labels);
  // The index of labels has the order of the list, so the documents are read one by one.
  const from = label ? "labels l CROSS JOIN documents d ON d.ordinal = l.document" : "documents d";
  const position = label ? "l.document" : "d.ordinal";
  const where: string[] = [];
  const values: Value[] = [];
  const also = (condition: string, ...more: Value[]): void => {
    where.push(condition);
    values.push(...more);
  };
  if (label) also("l.owner = ? AND l.kind = ? AND l.name = ? AND l.value = ?", tenant, kind, ...label);
  also("d.owner = ? AND d.kind = ?", tenant, kind);
  if (parent !== undefined) also("d.parent = ?", parent);
  if (archived !== true) also("d.archived = 0");
  if (after !== undefined) also(`${position} ${order === "asc" ? ">" : "<"} ?`, after);
  if (ids) also(`d.id IN (${ids.map(() => "?").join(", ")})`, ...ids);
  for (const [name, value] of otherLabels) also(LABELLED, tenant, kind, name, value);
  // Creation times grow with ordinals, so a range of time is a range of ordinals.
  if (created.gt !== undefined) also(`${position} >= ${firstOf(">")}`, tenant, kind, created.gt);
  if (created.gte !== undefined) also(`${position} >= ${firstOf(">=")}`, tenant, kind, created.gte);
  if (created.lt !== undefined)
    also(`${position} < coalesce(${firstOf(">=")}, ${END})`, tenant, kind, created.lt);
  if (created.lte !== undefined)
    also(`${position} < coalesce(${firstOf(">")}, ${END})`, tenant, kind, created.lte);
  const sql = `SELECT d.* FROM ${from} WHERE ${where.join(" AND ")} ORDER BY ${position} ${order === "asc" ? "ASC" : "DESC"} LIMIT ?`;
  return { sql, values: [...values, limit] };
}

const END = Number.MAX_SAFE_INTEGER;
const LABELLED =
  "EXISTS (SELECT 1 FROM labels o WHERE o.owner = ? AND o.kind = ? AND o.name = ? AND o.value = ? AND o.document = d.ordinal)";

function firstOf(comparison: ">" | ">="): string {
  return `(SELECT ordinal FROM documents WHERE owner = ? AND kind = ? AND created_at ${comparison} ? ORDER BY created_at, ordinal LIMIT 1)`;
}
