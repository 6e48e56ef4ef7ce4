import type { Document } from "./port.ts";
import { documentDamaged } from "./refusals.ts";

/** A row of a database with a document. Its columns have the same names in every database. */
export type DocumentRow = Readonly<Record<string, unknown>>;

export function toDocument(row: DocumentRow): Document {
  const document = readDocument(row);
  if (document) return document;
  throw documentDamaged(String(row["kind"]), String(row["id"]));
}

/** Undefined for a damaged row. */
export function readDocument(row: DocumentRow): Document | undefined {
  const revision = Number(row["revision"]);
  const createdAt = Number(row["created_at"]);
  const updatedAt = Number(row["updated_at"]);
  if ([revision, createdAt, updatedAt].some(Number.isNaN)) return undefined;
  try {
    return {
      kind: String(row["kind"]),
      id: String(row["id"]),
      parent: row["parent"] === null ? undefined : String(row["parent"]),
      ordinal: Number(row["ordinal"]),
      revision,
      createdAt,
      updatedAt,
      // SQLite has no booleans.
      archived: row["archived"] === true || row["archived"] === 1,
      labels: JSON.parse(String(row["labels"])),
      body: JSON.parse(String(row["body"])),
    };
  } catch {
    return undefined;
  }
}
