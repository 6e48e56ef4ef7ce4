import type { PlanEntry } from "../../contract/index.ts";
import { isRecord, toRecords } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { toFailure } from "./failure.ts";
import { endItem, startItem } from "./items.ts";
import { ensureModel, modelKey, type Reading } from "./state.ts";
import { failTurn, finish, retry, toCounts, toUsage } from "./turns.ts";

/** A line of `codex exec --json`, the form without deltas, approvals and questions. */
export function readExecLine(reading: Reading, value: Params): string | undefined {
  switch (value["type"]) {
    case "thread.started":
      if (typeof value["thread_id"] !== "string") return "a thread without an id";
      reading.change({ thread: value["thread_id"] });
      reading.scribe.session(value["thread_id"]);
      return undefined;
    case "turn.started":
      reading.change({ prompted: true });
      ensureModel(reading, undefined);
      return undefined;
    case "turn.completed":
      return void endTurn(reading, value["usage"]);
    case "turn.failed":
      return void failTurn(reading, toFailure(value["error"]));
    case "error":
      return void readExecError(reading, value);
    case "item.started":
    case "item.updated":
    case "item.completed":
      return isRecord(value["item"])
        ? readExecItem(reading, value["type"], value["item"])
        : "an item line without an item";
    default:
      return `an unknown type ${JSON.stringify(value["type"])}`;
  }
}

/** There is one count for the whole turn, so it goes to one model request. */
function endTurn(reading: Reading, usage: unknown): void {
  const counts = toCounts(usage);
  ensureModel(reading, undefined);
  reading.scribe.endModel(modelKey(reading, undefined), counts ? { usage: toUsage(counts) } : {});
  finish(reading, { status: "completed", stop_reason: "end_turn" });
}

/** `Reconnecting... 1/3 (why)`; `turn.failed` repeats any other error. */
function readExecError(reading: Reading, { message }: Params): void {
  const [, text, why] = /^(Reconnecting\.\.\. \d+\/\d+)(?: \((.*)\))?$/s.exec(String(message)) ?? [];
  if (text !== undefined) return retry(reading, { message: text, additionalDetails: why }, undefined);
}

function readExecItem(reading: Reading, when: unknown, item: Params): string | undefined {
  const isOver = when === "item.completed";
  if (item["type"] === "todo_list") return void reading.scribe.plan(toEntries(item["items"], isOver));
  if (item["type"] === "error") {
    const message = String(item["message"] ?? "");
    if (isOver) reading.scribe.status("warning", { detail: message });
    return undefined;
  }
  const known = toAppItem(item);
  if (when === "item.updated") return undefined;
  return isOver ? endItem(reading, known) : startItem(reading, known, undefined);
}

/** The same item in the app-server's form. */
function toAppItem(item: Params): Params {
  const { type, status } = item;
  const state = status === "in_progress" ? "inProgress" : status;
  switch (type) {
    case "agent_message":
      return { ...item, type: "agentMessage" };
    case "reasoning":
      return { ...item, summary: [item["text"]] };
    case "command_execution": {
      const { aggregated_output: aggregatedOutput, exit_code: exitCode } = item;
      return { ...item, type: "commandExecution", status: state, aggregatedOutput, exitCode };
    }
    case "file_change":
      return { ...item, type: "fileChange", status: state };
    case "mcp_tool_call":
      return { ...item, type: "mcpToolCall", status: state };
    case "web_search":
      return { ...item, type: "webSearch" };
    case "collab_tool_call": {
      const { receiver_thread_ids: receiverThreadIds, agents_states: agentsStates } = item;
      return { ...item, type: "collabAgentToolCall", status: state, receiverThreadIds, agentsStates };
    }
    default:
      return item;
  }
}

function toEntries(items: unknown, isOver: boolean): PlanEntry[] {
  const todos = toRecords(items);
  const next = isOver ? -1 : todos.findIndex((todo) => todo["completed"] !== true);
  return todos.map(({ text, completed }, index): PlanEntry => {
    const open = index === next ? "in_progress" : "pending";
    const status = completed === true ? "completed" : open;
    return { content: String(text ?? ""), status, priority: "medium" };
  });
}
