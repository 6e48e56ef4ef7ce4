import type { AgUiState } from "../../dialects/ag-ui/index.ts";
import type { AgUiMessage } from "../../dialects/ag-ui/messages.ts";
import { toSnapshot } from "../../dialects/ag-ui/shared-state.ts";
import { toFrameTexts } from "../../dialects/ag-ui/frame-size.ts";
import { speaksOne } from "../../dialects/ag-ui/view.ts";
import type { Frame } from "../../dialects/port.ts";
import type { Past, ToldEvent } from "./history.ts";

/** What a reader needs that comes to a run in its middle: that it runs, what was said, and all that is open, opened again. */
export function toPrelude(state: AgUiState, { messages, turn }: Past, session: string): Frame[] {
  const { run, view, shared } = state;
  if (!run) return [];
  const timestamp = Number(turn.at(-1)?.["timestamp"] ?? 0);
  const events = [
    {
      type: "RUN_STARTED",
      threadId: view.thread ?? session,
      runId: run.id,
      ...(speaksOne(run) ? { protocolVersion: "1.0" } : {}),
    },
    { type: "MESSAGES_SNAPSHOT", messages: messages.filter(isSaid) },
    ...(shared ? [{ type: "STATE_SNAPSHOT", snapshot: toSnapshot(state, shared) }] : []),
    ...openedAgain(turn),
  ];
  return events
    .flatMap((event) => toFrameTexts({ ...event, timestamp }, { session }))
    .map((data) => ({ data, id: null }));
}

/** Clients take no message without a content that they ask for. */
function isSaid({ role, content }: AgUiMessage): boolean {
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
