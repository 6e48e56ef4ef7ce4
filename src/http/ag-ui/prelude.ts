import { toFrameTexts } from "../../dialects/ag-ui/frames.ts";
import type { AgUiState } from "../../dialects/ag-ui/index.ts";
import { toSnapshot } from "../../dialects/ag-ui/interrupts.ts";
import type { AgUiMessage } from "../../dialects/ag-ui/messages.ts";
import { isProtocolOne } from "../../dialects/ag-ui/state.ts";
import type { Frame } from "../../dialects/port.ts";
import type { AgUiEvent, Past } from "./history.ts";

/** The frames that a late reader needs before the live ones: the run's start, its messages, and all open items. */
export function toPrelude(state: AgUiState, { messages, turn }: Past, session: string): Frame[] {
  const { run, view, shared } = state;
  if (!run) return [];
  const timestamp = Number(turn.at(-1)?.["timestamp"] ?? 0);
  const events = [
    {
      type: "RUN_STARTED",
      threadId: view.thread ?? session,
      runId: run.id,
      ...(isProtocolOne(run) ? { protocolVersion: "1.0" } : {}),
    },
    { type: "MESSAGES_SNAPSHOT", messages: messages.filter(isComplete) },
    ...(shared ? [{ type: "STATE_SNAPSHOT", snapshot: toSnapshot(state, shared) }] : []),
    ...toOpen(turn),
  ];
  return events
    .flatMap((event) => toFrameTexts({ ...event, timestamp }, { session }))
    .map((data) => ({ data, id: null }));
}

/** Clients refuse an activity without content. */
function isComplete({ role, content }: AgUiMessage): boolean {
  return role !== "activity" || content !== undefined;
}

const OPENERS: Readonly<Record<string, { closer: string; key: string }>> = {
  SUBAGENT_STARTED: { closer: "SUBAGENT_FINISHED", key: "subagentRunId" },
  TEXT_MESSAGE_START: { closer: "TEXT_MESSAGE_END", key: "messageId" },
  REASONING_START: { closer: "REASONING_END", key: "messageId" },
  REASONING_MESSAGE_START: { closer: "REASONING_MESSAGE_END", key: "messageId" },
  TOOL_CALL_START: { closer: "TOOL_CALL_END", key: "toolCallId" },
};

/** The start events of the last run that have no end event yet, in order. Their content is in the messages. */
function toOpen(events: readonly AgUiEvent[]): AgUiEvent[] {
  const begun = events.findLastIndex(({ type }) => type === "RUN_STARTED");
  const open = new Map<string, AgUiEvent>();
  for (const event of events.slice(begun + 1)) {
    const opener = OPENERS[event.type];
    if (opener) open.set(`${event.type} ${String(event[opener.key])}`, event);
    for (const [type, { closer, key }] of Object.entries(OPENERS)) {
      const isEnd = event.type === closer || (type === "SUBAGENT_STARTED" && event.type === "SUBAGENT_ERROR");
      if (isEnd) open.delete(`${type} ${String(event[key])}`);
    }
  }
  return [...open.values()];
}
