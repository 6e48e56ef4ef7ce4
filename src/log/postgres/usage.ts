import type { Connections } from "../../postgres/connections.ts";
import type { TurnHistory } from "../kept/turns.ts";
import { toBooked, toCounts, type UsageBook } from "../kept/usage.ts";
import { createTurnRows } from "./turns.ts";

const SUMS = ["requests", "input", "output", "cache_read", "cache_write", "reasoning", "usd"]
  .map((name) => `sum(${name}) AS ${name}`)
  .join(", ");

/** The rows beside the events. `settled` waits for the appends before. */
export function createKeptRows(
  database: Connections,
  settled: () => Promise<void>,
): { turns: TurnHistory; usage: UsageBook } {
  return { turns: createTurnRows(database, settled), usage: createUsageRows(database, settled) };
}

/** The table `usage`. */
function createUsageRows({ query }: Connections, settled: () => Promise<void>): UsageBook {
  return {
    list: async ({ tenant, session, model, from = "", to = "9" }) => {
      await settled();
      const rows = await query(
        `SELECT tenant, session, day, model, provider, price, ${SUMS} FROM sluice.usage
         WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR session = $2)
           AND ($3::text IS NULL OR model = $3) AND day >= $4 AND day <= $5
         GROUP BY day, session, model, provider, price, tenant ORDER BY day, session, model, provider, price`,
        [tenant ?? null, session ?? null, model ?? null, from, to],
      );
      return rows.map(toBooked);
    },
    total: async (tenant) => {
      await settled();
      const [row = {}] = await query(
        `SELECT ${SUMS}, sum(CASE WHEN price = 'unknown' THEN requests ELSE 0 END) AS unknown
         FROM sluice.usage WHERE tenant = $1`,
        [tenant],
      );
      return { ...toCounts(row), unknown: Number(row["unknown"] ?? 0) };
    },
  };
}
