/** How requests were priced: in dollars, by no known table, by a plan, or not at all because they used nothing. */
export type PriceKind = "usd" | "unknown" | "plan" | "none";

/** The counts of some model requests. */
export interface UsageCounts {
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly reasoning: number;
  readonly usd: number;
}

/** Model requests of one session, day, model, provider and kind of price. */
export interface UsageRow extends UsageCounts {
  /** The day in UTC, such as 2026-11-18. */
  readonly day: string;
  readonly model: string;
  readonly provider: string;
  readonly price: PriceKind;
}

/** A row with its session. The session may be deleted by now. */
export interface BookedUsage extends UsageRow {
  readonly tenant?: string;
  readonly session: string;
}

export interface UsageFilter {
  /** Only this tenant's. */
  readonly tenant?: string | undefined;
  readonly session?: string | undefined;
  readonly model?: string | undefined;
  /** The first and the last day. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The usage of all sessions, also of deleted ones. It is written with the events of a batch, and in no other way. */
export interface UsageBook {
  /** The matching rows, added up by the session's id, day, model, provider and kind of price. */
  list(filter: UsageFilter): Promise<BookedUsage[]>;
  /** The sum of all rows of a tenant. */
  total(tenant: string): Promise<UsageCounts & { readonly unknown: number }>;
}

/** The rows of a store. */
export type UsageRows = {
  readonly [Method in keyof UsageBook]: (
    ...parameters: Parameters<UsageBook[Method]>
  ) => Awaited<ReturnType<UsageBook[Method]>>;
};

export const NO_COUNTS: UsageCounts = {
  requests: 0,
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  reasoning: 0,
  usd: 0,
};

export function addCounts(one: UsageCounts, other: UsageCounts): UsageCounts {
  return {
    requests: one.requests + other.requests,
    input: one.input + other.input,
    output: one.output + other.output,
    cacheRead: one.cacheRead + other.cacheRead,
    cacheWrite: one.cacheWrite + other.cacheWrite,
    reasoning: one.reasoning + other.reasoning,
    usd: one.usd + other.usd,
  };
}

/** The rows of the memory log. */
export class MemoryUsage implements UsageRows {
  readonly #rows = new Map<string, BookedUsage>();

  write({ id, tenant }: { id: string; tenant?: string | undefined }, rows: readonly UsageRow[]): void {
    for (const row of rows) {
      const key = JSON.stringify([tenant, id, row.day, row.model, row.provider, row.price]);
      const sum = addCounts(this.#rows.get(key) ?? NO_COUNTS, row);
      const { day, model, provider, price } = row;
      this.#rows.set(key, {
        ...(tenant === undefined ? {} : { tenant }),
        session: id,
        day,
        model,
        provider,
        price,
        ...sum,
      });
    }
  }

  list({ tenant, session, model, from = "", to = "9" }: UsageFilter): BookedUsage[] {
    const isWanted = (row: BookedUsage): boolean =>
      (tenant === undefined || row.tenant === tenant) &&
      (session === undefined || row.session === session) &&
      (model === undefined || row.model === model) &&
      row.day >= from &&
      row.day <= to;
    return [...this.#rows.values()].filter(isWanted).sort(byPlace);
  }

  total(tenant: string): UsageCounts & { readonly unknown: number } {
    const rows = this.list({ tenant });
    const unknown = rows.filter(({ price }) => price === "unknown");
    return {
      ...rows.reduce<UsageCounts>(addCounts, NO_COUNTS),
      unknown: unknown.reduce((sum, { requests }) => sum + requests, 0),
    };
  }
}

function byPlace(one: BookedUsage, other: BookedUsage): number {
  const [a, b] = [one, other].map(({ day, session, model, provider, price }) =>
    [day, session, model, provider, price].join("\n"),
  );
  return (a ?? "") < (b ?? "") ? -1 : 1;
}

/** A row of a database. */
export function toBooked(row: Readonly<Record<string, unknown>>): BookedUsage {
  return {
    ...(row["tenant"] === "" ? {} : { tenant: String(row["tenant"]) }),
    session: String(row["session"]),
    day: String(row["day"]),
    model: String(row["model"]),
    provider: String(row["provider"]),
    price: String(row["price"]) as PriceKind,
    ...toCounts(row),
  };
}

/** The sums of a database, which are absent where there is no row. */
export function toCounts(row: Readonly<Record<string, unknown>>): UsageCounts {
  const count = (name: string): number => Number(row[name] ?? 0);
  return {
    requests: count("requests"),
    input: count("input"),
    output: count("output"),
    cacheRead: count("cache_read"),
    cacheWrite: count("cache_write"),
    reasoning: count("reasoning"),
    usd: count("usd"),
  };
}
