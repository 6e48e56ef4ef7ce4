import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { toFrameTexts } from "../../dialects/ag-ui/frames.ts";
import {
  agUi,
  type AgUiState,
  type AgUiView,
  type FramePosition,
  parseFrameId,
} from "../../dialects/ag-ui/index.ts";
import { toSnapshot } from "../../dialects/ag-ui/interrupts.ts";
import type { AgUiMessage } from "../../dialects/ag-ui/messages.ts";
import { isProtocolOne } from "../../dialects/ag-ui/state.ts";
import type { Frame } from "../../dialects/port.ts";
import type { SessionRow } from "../../log/port.ts";
import type { AppEnv } from "../context.ts";
import { assertCursor, readSession, readStateAt } from "../stream/cursor.ts";
import { type AgUiEvent, type Past, readPast } from "./history.ts";
import { findPosition, findRun, isCancelledByLeaving } from "./run-position.ts";
import { leaveRun } from "./stop.ts";
import { type AgUiServices, readThreadRow } from "./thread.ts";
import { chooseFormat, type RunQuery, withPrelude } from "./view.ts";

interface Reading {
  readonly c: Context<AppEnv>;
  readonly query: RunQuery & { readonly follow?: boolean | undefined };
  readonly view: AgUiView;
}

/** A run from its start, from the last frame that was seen, or from now on. */
export async function readRun(
  services: AgUiServices,
  reading: Reading & {
    agent: string;
    threadId?: string | undefined;
    runId: string;
    /** `Last-Event-ID` or `offset`; a reader without either starts with the run. */
    seen: string | undefined;
  },
): Promise<Response> {
  const { c, query, runId, seen, threadId } = reading;
  const found = await findRun(services, reading);
  if (!found) throw new SluiceError("not_found", `There is no run ${runId}.`, { runId });
  const { row, start } = found;
  const view = { ...reading.view, thread: threadId ?? row.id };
  const from = parseSeen(seen);
  if (from === "now") return joinRun(services, { c, query, view, runId, row });
  const position = await findPosition(services.engine.log, row, {
    start,
    view: { ...view, agent: row.spec.agent, run: runId },
    seen: from === "start" ? undefined : from,
  });
  return respondRun(services, { c, query, runId, row, start, ...position });
}

export async function respondRun(
  services: AgUiServices,
  run: Reading & { runId: string; row: SessionRow; start: number; after: number; isReadToEnd?: boolean },
): Promise<Response> {
  const { engine, streams } = services;
  const { c, query, row, runId, start, after } = run;
  const { until } = await readSession(engine, row.id);
  const lastWanted = query.follow === false ? row.head : until;
  const end = run.isReadToEnd ? after : lastWanted;
  // Both the run and this reader have to ask for it, so that an observer cannot cancel a run.
  const cancels =
    query.cancelOnDisconnect === true && (await isCancelledByLeaving(engine.log, row, { runId, start }));
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: { ...run.view, agent: row.spec.agent, run: runId },
    after: Math.max(after, row.floor),
    ...(end === undefined ? {} : { until: end }),
    format: await chooseFormat(c),
    headers: { "x-run-id": encodeURIComponent(runId) },
    ...(cancels && {
      onOpen: () => (why) => {
        if (why === "gone") void leaveRun(services, row.id, runId);
      },
    }),
  });
}

/** All runs of a thread in their order, up to the end of the live one. */
export async function readThread(
  services: AgUiServices,
  { c, view, agent, threadId, seen }: Reading & { agent: string; threadId: string; seen: string },
): Promise<Response> {
  const { engine, streams } = services;
  const row = await readThreadRow(services, agent, threadId);
  const threadView = { ...view, agent: row.spec.agent, thread: threadId, inputs: true };
  const state = await readStateAt(engine.log, { session: row.id, dialect: agUi, view: threadView }, row.head);
  const from = parseSeen(seen);
  if (from === "now") throw noFrameId(seen);
  const { sequence, index }: FramePosition = from === "start" ? { sequence: row.floor } : from;
  const after = index === undefined ? sequence : sequence - 1;
  assertCursor(row, sequence);
  assertCursor(row, after);
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    // The end of a live run, which only the dialect recognises, ends the stream. Without one, the head does.
    view: {
      ...threadView,
      ...(state.run ? { until: row.head } : {}),
      ...(index === undefined ? {} : { behind: { sequence, index } }),
    },
    after,
    ...(state.run ? {} : { until: row.head }),
    format: await chooseFormat(c),
  });
}

/** A run from the head on, after a prelude that starts its open items again. */
async function joinRun(
  { engine, streams }: AgUiServices,
  { c, view, runId, row }: Reading & { runId: string; row: SessionRow },
): Promise<Response> {
  // The client has no other messages, so the snapshot includes its own.
  const runView = { ...view, agent: row.spec.agent, run: runId, inputs: true };
  const state = await readStateAt(engine.log, { session: row.id, dialect: agUi, view: runView }, row.head);
  const past = await readPast(engine.log, row, runView);
  const format = await chooseFormat(c);
  const isLive = state.run?.id === runId;
  return streams.respond(c, {
    session: row.id,
    ordinal: row.ordinal,
    dialect: agUi,
    view: runView,
    after: row.head,
    ...(isLive ? {} : { until: row.head }),
    format: isLive ? withPrelude(format, toPrelude(state, past, row.id)) : format,
  });
}

/** The start, the head, or the last frame that the reader has seen. */
type ReadFrom = "start" | "now" | FramePosition;

function parseSeen(seen: string | undefined): ReadFrom {
  if (seen === undefined || seen === "-1") return "start";
  if (seen === "now") return "now";
  const position = parseFrameId(seen);
  if (position) return position;
  throw noFrameId(seen);
}

function noFrameId(seen: string): SluiceError {
  const detail = `${JSON.stringify(seen.slice(0, 80))} is not the id of a frame. Send the id of the last received frame, or -1 for all frames.`;
  return new SluiceError("invalid_cursor", detail);
}

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
