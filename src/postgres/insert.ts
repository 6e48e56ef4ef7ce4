import type { Query, Row } from "./connections.ts";

/** The most text of one statement. */
const TEXT_LENGTH = 2 * 1024 * 1024;
const ROWS = 4096;

/**
 * Inserts rows with their own ordinals, many in a statement. `columns` has the type of each. `conflict` is the end of
 * the statement, such as `ON CONFLICT DO NOTHING`.
 */
export async function insertRows(
  query: Query,
  table: string,
  columns: Readonly<Record<string, string>>,
  rows: Iterable<Readonly<Row>>,
  conflict = "",
): Promise<number> {
  const names = Object.keys(columns);
  const types = names.map((name) => `"${name}" ${columns[name]}`).join(", ");
  const list = names.map((name) => `"${name}"`).join(", ");
  const statement = `INSERT INTO sluice.${table} (${list}) OVERRIDING SYSTEM VALUE
    SELECT ${list} FROM json_to_recordset($1::text::json) n(${types}) ${conflict}`;
  let count = 0;
  let texts: string[] = [];
  let length = 0;
  const flush = async (): Promise<void> => {
    if (texts.length > 0) await query(statement, [`[${texts.join(",")}]`]);
    texts = [];
    length = 0;
  };
  for (const row of rows) {
    const text = JSON.stringify(row);
    texts.push(text);
    length += text.length;
    count += 1;
    if (length >= TEXT_LENGTH || texts.length >= ROWS) await flush();
  }
  await flush();
  return count;
}
