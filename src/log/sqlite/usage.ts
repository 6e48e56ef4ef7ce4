import { toSluiceError } from "../../sqlite/failure.ts";
import {
  type BookedUsage,
  toBooked,
  toCounts,
  type UsageCounts,
  type UsageFilter,
  type UsageRow,
  type UsageRows,
} from "../kept/usage.ts";
import type { Statements } from "./statements.ts";

/** The table `usage`. */
export class SqliteUsage implements UsageRows {
  readonly #sql: Statements;
  readonly #folder: string;

  constructor(sql: Statements, folder: string) {
    this.#sql = sql;
    this.#folder = folder;
  }

  list({ tenant, session, model, from = "", to = "9" }: UsageFilter): BookedUsage[] {
    const wanted = [tenant, tenant, session, session, model, model].map((value) => value ?? null);
    const rows = this.#attempt(() => this.#sql.usage.all(...wanted, from, to));
    return rows.map(toBooked);
  }

  total(tenant: string): UsageCounts & { readonly unknown: number } {
    const row = this.#attempt(() => this.#sql.usageTotal.get(tenant)) ?? {};
    return { ...toCounts(row), unknown: Number(row["unknown"] ?? 0) };
  }

  /** Call it in a transaction. */
  write(ordinal: number, rows: readonly UsageRow[]): void {
    for (const row of rows) {
      const { day, model, provider, price } = row;
      const { requests, input, output, cacheRead, cacheWrite, reasoning, usd } = row;
      const counts = [requests, input, output, cacheRead, cacheWrite, reasoning, usd];
      this.#sql.addUsage.run(day, model, provider, price, ...counts, ordinal);
    }
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw toSluiceError(error, this.#folder);
    }
  }
}
