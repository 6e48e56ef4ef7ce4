import type { GatewayRecord } from "../../gateway/record.ts";
import type { Use } from "../../gateway/desk.ts";
import { MINUTE_MS } from "../../gateway/limits/rates.ts";

/** Uses within this time become one. */
const GRAIN_MS = 1_000;

/** The counts of other servers, which share the limits. */
export interface SharedUses {
  note(tenant: string, use: Use): Promise<void>;
  /** The uses of the last minute at the other servers. */
  others(tenant: string): Promise<Use[]>;
}

/** The model requests of the last minute by tenant and session, for the gateways of the tenant's other sessions. */
export class WorkspaceRates {
  readonly #used = new Map<string, Map<string, Use[]>>();
  readonly #shared: SharedUses | undefined;
  readonly #isLimited: (tenant: string) => boolean;

  constructor({
    shared,
    isLimited,
  }: {
    shared?: SharedUses | undefined;
    isLimited(tenant: string): boolean;
  }) {
    this.#shared = shared;
    this.#isLimited = isLimited;
  }

  note(tenant: string | undefined, session: string, record: GatewayRecord): void {
    const use = toUse(record);
    if (tenant === undefined || use === undefined || use.time < Date.now() - MINUTE_MS) return;
    const sessions = this.#used.get(tenant) ?? new Map<string, Use[]>();
    this.#used.set(tenant, sessions);
    sessions.set(session, merge(recent(sessions.get(session) ?? []), use));
    // Without the database each server keeps the limit alone.
    if (this.#isLimited(tenant)) void this.#shared?.note(tenant, use).catch(() => {});
  }

  /** The uses of the last minute by the other sessions of a tenant, on all servers. */
  async others(tenant: string, session: string): Promise<Use[]> {
    const elsewhere = await this.#shared?.others(tenant).catch(() => []);
    return [...this.#here(tenant, session), ...(elsewhere ?? [])];
  }

  #here(tenant: string, session: string): Use[] {
    const sessions = this.#used.get(tenant) ?? new Map<string, Use[]>();
    for (const [id, uses] of sessions) if (recent(uses).length === 0) sessions.delete(id);
    return [...sessions].flatMap(([id, uses]) => (id === session ? [] : recent(uses)));
  }
}

function toUse(record: GatewayRecord): Use | undefined {
  if (record.type === "started") return { time: record.time, requests: 1, tokens: 0 };
  if (record.type !== "ended" || record.usage === undefined) return undefined;
  const { input_tokens = 0, output_tokens = 0, cache_write_tokens = 0 } = record.usage;
  return { time: record.time, requests: 0, tokens: input_tokens + output_tokens + cache_write_tokens };
}

function recent(uses: readonly Use[]): Use[] {
  const from = Date.now() - MINUTE_MS;
  return uses.filter(({ time }) => time > from);
}

function merge(uses: readonly Use[], next: Use): Use[] {
  const last = uses.at(-1);
  if (last === undefined || next.time - last.time > GRAIN_MS) return [...uses, next];
  const sum = {
    time: last.time,
    requests: last.requests + next.requests,
    tokens: last.tokens + next.tokens,
  };
  return [...uses.slice(0, -1), sum];
}
