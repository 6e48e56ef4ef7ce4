import type { ListQuery } from "../port.ts";
import type { Driver, Row, Statement, Value } from "../../sqlite/driver.ts";

/** Lists by index: the filters that are given decide the text, and each text is prepared once. */
export class Listing {
  readonly #driver: Driver;
  readonly #statements = new Map<string, Statement>();

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  read(owner: string, query: ListQuery): Row[] {
    const { sql, values } = toListSql(owner, query);
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#driver.prepare(sql)));
    return statement.all(...values);
  }
}

export function toListSql(owner: string, query: ListQuery): { sql: string; values: Value[] } {
  const { kind, parent, order = "asc", after, limit, archived, ids, labels = {}, created = {} } = query;
  const [label, ...otherLabels] = Object.entries(labels);
  // A label's own index is in the order of the list, and leads to the documents one by one.
  const from = label ? "labels l CROSS JOIN documents d ON d.ordinal = l.document" : "documents d";
  const place = label ? "l.document" : "d.ordinal";
  const where: string[] = [];
  const values: Value[] = [];
  const also = (condition: string, ...more: Value[]): void => {
    where.push(condition);
    values.push(...more);
  };
  if (label) also("l.owner = ? AND l.kind = ? AND l.name = ? AND l.value = ?", owner, kind, ...label);
  also("d.owner = ? AND d.kind = ?", owner, kind);
  if (parent !== undefined) also("d.parent = ?", parent);
  if (archived !== true) also("d.archived = 0");
  if (after !== undefined) also(`${place} ${order === "asc" ? ">" : "<"} ?`, after);
  if (ids) also(`d.id IN (${ids.map(() => "?").join(", ")})`, ...ids);
  for (const [name, value] of otherLabels) also(LABELLED, owner, kind, name, value);
  // Times only ever grow with ordinals, so that a range of time is a range of ordinals.
  if (created.gt !== undefined) also(`${place} >= ${firstOf(">")}`, owner, kind, created.gt);
  if (created.gte !== undefined) also(`${place} >= ${firstOf(">=")}`, owner, kind, created.gte);
  if (created.lt !== undefined)
    also(`${place} < coalesce(${firstOf(">=")}, ${END})`, owner, kind, created.lt);
  if (created.lte !== undefined)
    also(`${place} < coalesce(${firstOf(">")}, ${END})`, owner, kind, created.lte);
  const sql = `SELECT d.* FROM ${from} WHERE ${where.join(" AND ")} ORDER BY ${place} ${order === "asc" ? "ASC" : "DESC"} LIMIT ?`;
  return { sql, values: [...values, limit] };
}

const END = Number.MAX_SAFE_INTEGER;
const LABELLED =
  "EXISTS (SELECT 1 FROM labels o WHERE o.owner = ? AND o.kind = ? AND o.name = ? AND o.value = ? AND o.document = d.ordinal)";

function firstOf(comparison: ">" | ">="): string {
  return `(SELECT ordinal FROM documents WHERE owner = ? AND kind = ? AND created_at ${comparison} ? ORDER BY created_at, ordinal LIMIT 1)`;
}
