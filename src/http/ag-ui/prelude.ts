import type { AgUiState } from "../../dialects/ag-ui/index.ts";
import { toMessages } from "../../dialects/ag-ui/messages.ts";
import type { Frame } from "../../dialects/port.ts";
import type { ToldEvent } from "./history.ts";

/** What a reader needs that comes to a run in its middle: that it runs, what was said, and all that is open, opened again. */
export function toPrelude(state: AgUiState, told: readonly ToldEvent[], session: string): Frame[] {
  const { run, view } = state;
  if (!run) return [];
  const timestamp = Number(told.at(-1)?.["timestamp"] ?? 0);
  const open = openedAgain(told);
  const events = [
    { type: "RUN_STARTED", threadId: view.thread ?? session, runId: run.id },
    { type: "MESSAGES_SNAPSHOT", messages: toMessages(told).filter(isSaid) },
    ...open,
  ];
  return events.map((event) => ({ data: JSON.stringify({ ...event, timestamp }), id: null }));
}

/** Clients take no message without a content that they ask for. */
function isSaid({ role, content }: { role: string; content?: unknown }): boolean {
  return role !== "activity" || content !== undefined;
}

const OPENERS: Readonly<Record<string, { closer: string; key: string }>> = {
  SUBAGENT_STARTED: { closer: "SUBAGENT_FINISHED", key: "subagentRunId" },
  TEXT_MESSAGE_START: { closer: "TEXT_MESSAGE_END", key: "messageId" },
  REASONING_START: { closer: "REASONING_END", key: "messageId" },
  REASONING_MESSAGE_START: { closer: "REASONING_MESSAGE_END", key: "messageId" },
  TOOL_CALL_START: { closer: "TOOL_CALL_END", key: "toolCallId" },
};

/** The openers of this run without their end, in order. What was said of them is in the messages. */
function openedAgain(told: readonly ToldEvent[]): ToldEvent[] {
  const begun = told.findLastIndex(({ type }) => type === "RUN_STARTED");
  const open = new Map<string, ToldEvent>();
  for (const event of told.slice(begun + 1)) {
    const opener = OPENERS[event.type];
    if (opener) open.set(`${event.type} ${String(event[opener.key])}`, event);
    for (const [type, { closer, key }] of Object.entries(OPENERS)) {
      const isEnd = event.type === closer || (type === "SUBAGENT_STARTED" && event.type === "SUBAGENT_ERROR");
      if (isEnd) open.delete(`${type} ${String(event[key])}`);
    }
  }
  return [...open.values()];
}
