import { isRecord, type Params } from "../rpc.ts";
import type { Hand } from "./hand.ts";
import { childAnchor, endSpeech, hearChunk, MAIN, parentOf } from "./speech.ts";
import { toEntries } from "./todos.ts";
import { seeTool } from "./tools.ts";

/** Updates that change nothing in a log: what the agent can do, and how it is set. */
const NOISE = new Set([
  "user_message_chunk",
  "available_commands_update",
  "current_mode_update",
  "config_option_update",
  "session_info_update",
  "compaction_summary_chunk",
  "plan_removed",
  "subagent_update",
  "session_message",
  "session_message_chunk",
]);

/** One `session/update`. The text says why it could not be read. */
export function hearUpdate(hand: Hand, params: Params): string | undefined {
  const { update } = params;
  if (!isRecord(update)) return "a session/update without an update";
  const { sessionUpdate: type } = update;
  if (hand.state.isReplaying || hand.dialect.ignores?.(hand, update)) return undefined;
  const place = placeOf(hand, params);
  const isRead = read(hand, { type, update, place });
  return isRead ? undefined : `a session/update of an unknown kind: ${JSON.stringify(type)?.slice(0, 60)}`;
}

/** Where an update belongs: to the agent, or to one of its sub-agents. */
export function placeOf(hand: Hand, params: Params): string {
  const { sessionId } = params;
  if (!hand.dialect.hasChildren || typeof sessionId !== "string") return MAIN;
  if (hand.state.session === undefined || sessionId === hand.state.session) return MAIN;
  return childAnchor(sessionId) in hand.scribe.transcript.calls ? sessionId : MAIN;
}

function read(
  hand: Hand,
  { type, update, place }: { type: unknown; update: Params; place: string },
): boolean {
  switch (type) {
    case "agent_message_chunk":
      return hearChunk(hand, update, { kind: "text", place });
    case "agent_thought_chunk":
      return hearChunk(hand, update, { kind: "reasoning", place });
    case "tool_call":
      return seeTool(hand, update, { place, isUpdate: false });
    case "tool_call_update":
      return seeTool(hand, update, { place, isUpdate: true });
    case "plan":
    case "plan_update":
      return hearPlan(hand, update, place);
    case "usage_update":
      return hearCost(hand, update);
    case "notice":
      hand.scribe.status("notice", { detail: noticeOf(update), parent: parentOf(place) });
      return true;
    case "compaction_update":
      return hearCompaction(hand, update, place);
    default:
      return typeof type === "string" && NOISE.has(type);
  }
}

function hearPlan(hand: Hand, update: Params, place: string): boolean {
  const entries = Array.isArray(update["entries"]) ? toEntries(update["entries"]) : undefined;
  if (!entries) return false;
  endSpeech(hand, place);
  hand.scribe.plan(entries, { parent: parentOf(place) });
  return true;
}

/** Costs are told as what the session has cost so far. */
function hearCost(hand: Hand, { cost }: Params): boolean {
  const amount = isRecord(cost) && cost["currency"] === "USD" ? cost["amount"] : undefined;
  if (typeof amount === "number" && amount > 0) {
    hand.note({ cost: { ...hand.state.cost, total: amount } });
  }
  return true;
}

function hearCompaction(hand: Hand, { status, summary, trigger }: Params, place: string): boolean {
  if (status === "in_progress" || status === "pending" || status === "failed") return true;
  endSpeech(hand, place);
  hand.scribe.compacted({
    ...(typeof trigger === "string" ? { trigger } : {}),
    ...(typeof summary === "string" ? { summary } : {}),
  });
  return true;
}

function noticeOf({ message, text, title }: Params): string {
  return [message, text, title].find((words) => typeof words === "string") ?? "";
}
