import { defined } from "../../contract/own-keys.ts";
import {
  SluiceError,
  type EventType,
  type SluiceEvent,
  type UsageBy,
  type UsageReport,
} from "../../contract/index.ts";
import { addCounts, NO_COUNTS, type BookedUsage, type UsageCounts } from "../../log/kept/usage.ts";
import { type EventLog, readKept } from "../../log/port.ts";
import type { Engine } from "../port.ts";
import type { RequestFold } from "./request-fold.ts";
import { toUsageRow } from "./usage-row.ts";

export interface UsageQuery {
  readonly by: UsageBy;
  readonly session?: string | undefined;
  readonly model?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

type Row = UsageReport["rows"][number];
type Names = Pick<Row, "session" | "turn" | "request" | "model" | "provider" | "day" | "workspace">;
interface Entry extends BookedUsage {
  readonly turn?: string | undefined;
  readonly request?: string;
}

/** Adds up the usage of models. */
export async function readUsage(
  source: Pick<Engine, "usage"> & { readonly log: Pick<EventLog, "read"> },
  { by, ...filter }: UsageQuery,
): Promise<UsageReport> {
  const { session } = filter;
  const isOfLog = by === "turn" || by === "request";
  if (isOfLog && session === undefined)
    throw new SluiceError("invalid_request", `by=${by} needs a session, such as &session=my-session`);
  const entries = isOfLog
    ? (await readRequests(source.log, session ?? "")).filter((entry) => isWanted(entry, filter))
    : await source.usage(filter);
  const groups = new Map<string, { names: Names; entries: Entry[] }>();
  for (const entry of entries) {
    const names = NAMES[by](entry);
    const key = JSON.stringify(names);
    const group = groups.get(key) ?? { names, entries: [] };
    group.entries.push(entry);
    groups.set(key, group);
  }
  const rows = [...groups.values()].map(toRow);
  return { by, rows, total: toSum(entries) };
}

function toRow({ names, entries }: { names: Names; entries: readonly Entry[] }): Row {
  return { ...names, ...toSum(entries) };
}

const NAMES: Readonly<Record<UsageBy, (entry: Entry) => Names>> = {
  session: ({ session, tenant: workspace }) => ({ session, ...defined({ workspace }) }),
  turn: ({ session, turn }) => ({ session, ...defined({ turn }) }),
  request: ({ session, turn, request, model, provider, day }) => ({
    session,
    ...defined({ turn, request }),
    ...named({ model, provider }),
    day,
  }),
  model: ({ model, provider }) => named({ model, provider }),
  day: ({ day }) => ({ day }),
  workspace: ({ tenant: workspace }) => defined({ workspace }),
};

function named({ model, provider }: Pick<BookedUsage, "model" | "provider">): Names {
  return { ...(model === "" ? {} : { model }), ...(provider === "" ? {} : { provider }) };
}

function isWanted({ model, day }: Entry, wanted: Omit<UsageQuery, "by">): boolean {
  const { from = "", to = "9" } = wanted;
  return (wanted.model === undefined || wanted.model === model) && day >= from && day <= to;
}

const TYPES: ReadonlySet<EventType> = new Set<EventType>(["model.started", "model.ended"]);

/** The requests of one session, from the events that its log still has. */
async function readRequests(log: Pick<EventLog, "read">, session: string): Promise<Entry[]> {
  const asked: NonNullable<RequestFold["asked"]> = {};
  const entries: Entry[] = [];
  for (let after = 0; ;) {
    const page = await readKept(log, session, { after, limit: 1_000, types: TYPES });
    if (page.length === 0) return entries;
    for (const { body, sequence } of page) {
      after = sequence;
      const event = JSON.parse(body) as SluiceEvent;
      if (event.type === "model.started" && event.data.model !== undefined)
        asked[event.data.request_id] = event.data.model;
      if (event.type !== "model.ended") continue;
      const row = toUsageRow({ asked }, event.data, Date.parse(event.time));
      entries.push({ ...row, session, turn: event.turn_id, request: event.data.request_id });
    }
  }
}

function toSum(entries: readonly Entry[]): UsageReport["total"] {
  const counts = entries.reduce<UsageCounts>(addCounts, NO_COUNTS);
  const of = (price: BookedUsage["price"]): number =>
    entries.reduce((sum, entry) => sum + (entry.price === price ? entry.requests : 0), 0);
  const [priced, unknown, plan] = [of("usd"), of("unknown"), of("plan")];
  const isPriced = priced > 0 || unknown + plan === 0;
  const withoutPrice = unknown > 0 ? "unknown" : "plan";
  return {
    requests: counts.requests,
    input_tokens: counts.input,
    output_tokens: counts.output,
    cache_read_tokens: counts.cacheRead,
    cache_write_tokens: counts.cacheWrite,
    reasoning_tokens: counts.reasoning,
    cost_usd: isPriced ? counts.usd : withoutPrice,
    unknown_requests: unknown,
    plan_requests: plan,
  };
}
