import type { Parameter } from "../../postgres/connections.ts";
import type { ListQuery } from "../port.ts";

/** The statement of a list. The filters of a query decide its text. */
export function toListStatement(
  tenant: string,
  query: ListQuery,
): { statement: string; parameters: Parameter[] } {
  const { kind, parent, order = "asc", after, limit, archived, ids, labels = {}, created = {} } = query;
  const parameters: Parameter[] = [tenant, kind];
  const where = ["d.tenant = $1", "d.kind = $2"];
  const also = (value: Parameter, condition: (parameter: string) => string): void => {
    parameters.push(value);
    where.push(condition(`$${parameters.length}`));
  };
  if (parent !== undefined) also(parent, (it) => `d.parent = ${it}`);
  if (archived !== true) where.push("NOT d.archived");
  if (after !== undefined) also(after, (it) => `d.ordinal ${order === "asc" ? ">" : "<"} ${it}::bigint`);
  if (ids)
    also(JSON.stringify(ids), (it) => `d.id IN (SELECT jsonb_array_elements_text(${it}::text::jsonb))`);
  for (const [name, value] of Object.entries(labels)) {
    parameters.push(name, value);
    const at = parameters.length;
    where.push(`EXISTS (SELECT 1 FROM sluice.labels l WHERE l.tenant = $1 AND l.kind = $2 AND l.name = $${at - 1}
      AND l.value = $${at} AND l.document = d.ordinal)`);
  }
  if (created.gt !== undefined) also(created.gt, (it) => `d.created_at > ${it}::bigint`);
  if (created.gte !== undefined) also(created.gte, (it) => `d.created_at >= ${it}::bigint`);
  if (created.lt !== undefined) also(created.lt, (it) => `d.created_at < ${it}::bigint`);
  if (created.lte !== undefined) also(created.lte, (it) => `d.created_at <= ${it}::bigint`);
  parameters.push(limit);
  const statement = `SELECT d.* FROM sluice.documents d WHERE ${where.join(" AND ")}
    ORDER BY d.ordinal ${order === "asc" ? "ASC" : "DESC"} LIMIT $${parameters.length}::bigint`;
  return { statement, parameters };
}
