import { isRecord, type Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { change, ensureModel, isMain, modelKey, type Reading } from "./reading.ts";
import { asThread } from "./texts.ts";
import { since, toCounts, toUsage } from "./usage.ts";

/** Totals of a thread; on resuming, Codex first repeats the last one of an earlier turn. */
export function countTokens(reading: Reading, params: Params): void {
  const thread = asThread(params["threadId"]) ?? "";
  const told = isRecord(params["tokenUsage"]) ? params["tokenUsage"] : {};
  const total = toCounts(told["total"]);
  if (!total) return;
  const { state, scribe } = reading;
  const before = own(state.used, thread);
  change(reading, { used: { ...state.used, [thread]: total } });
  const running = isMain(reading, thread) ? state.turn : own(state.agents, thread)?.turn;
  if (running === undefined || params["turnId"] !== running) return;
  const last = toCounts(told["last"]) ?? total;
  const counts = before ? since(before, total) : since(ZERO, last);
  if (!counts) return;
  ensureModel(reading, thread);
  scribe.endModel(modelKey(reading, thread), { usage: toUsage(counts) });
}

const ZERO = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };
