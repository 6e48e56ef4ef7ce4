import { own } from "../../contract/own-keys.ts";
import type { EventData } from "../../contract/index.ts";
import type { PriceKind, UsageRow } from "../../log/kept/usage.ts";
import type { RequestFold } from "./request-fold.ts";

/** The booking of a model request. Call it before the event is applied. Pure. */
export function toUsageRow(fold: RequestFold, data: EventData<"model.ended">, time: number): UsageRow {
  const { usage = {}, provider = "" } = data;
  const price = priceOf(data);
  return {
    day: new Date(time).toISOString().slice(0, 10),
    model: data.model ?? own(fold.asked ?? {}, data.request_id) ?? "",
    provider,
    price,
    requests: 1,
    input: usage.input_tokens ?? 0,
    output: usage.output_tokens ?? 0,
    cacheRead: usage.cache_read_tokens ?? 0,
    cacheWrite: usage.cache_write_tokens ?? 0,
    reasoning: usage.reasoning_tokens ?? 0,
    // An agent with the login of a plan reports a cost that nobody pays.
    usd: price === "usd" ? (usage.cost_usd ?? 0) : 0,
  };
}

function priceOf({ usage, price }: EventData<"model.ended">): PriceKind {
  if (usage === undefined) return "none";
  if (price?.table === "plan") return "plan";
  return usage.cost_usd === undefined ? "unknown" : "usd";
}
