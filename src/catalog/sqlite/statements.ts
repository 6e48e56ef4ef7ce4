import type { Driver, Statement } from "../../sqlite/driver.ts";

const SQL = {
  find: "SELECT * FROM documents WHERE owner = ? AND kind = ? AND id = ?",
  // From owner to owner by the index: there are few of them, however many documents they have.
  ownersOf: `
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

/** Everything that the catalog says to SQLite, but for the lists. */
export function prepareStatements(driver: Driver): Statements {
  const entries = Object.entries(SQL).map(([name, sql]) => [name, driver.prepare(sql)] as const);
  return Object.fromEntries(entries) as Record<keyof typeof SQL, Statement>;
}
