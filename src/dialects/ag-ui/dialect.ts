import { parseOthersJson } from "../../contract/index.ts";
import type { EventOf, EventType, Item, SluiceEvent } from "../../contract/index.ts";
import type { Dialect } from "../port.ts";
import type { StoredEventText } from "../stored.ts";
import { forgetAsk, keepPermission, keepQuestion } from "./ask-frames.ts";
import { toFrames } from "./frame-id.ts";
import { isRun, RUN_EVENT } from "./payload.ts";
import { tellNextRun, tellTurnEnded, tellTurnStarted, tellWaiting } from "./run-frames.ts";
import { type AgUiState, initialState } from "./state.ts";
import { attribute } from "./subagent-frames.ts";
import { Teller } from "./teller.ts";
import { completeText, growText, startText } from "./text-frames.ts";
import {
  completeCall,
  growCallOf,
  startCall,
  tellResult,
  tellToolRequested,
  tellToolResolved,
} from "./tool-frames.ts";
import { addUsage } from "./usage.ts";
import type { AgUiView } from "./view.ts";

/** The log as AG-UI clients read it: a turn is a run, or as many as it had to be answered in between. */
export const agUi: Dialect<AgUiState, AgUiView> = {
  id: "ag-ui",
  memory: "turn",
  wantsRaw: (view) => view.raw === true,
  initial: initialState,
  project(state, stored) {
    const tell = TELL[stored.type] as ((teller: Teller, event: SluiceEvent) => void) | undefined;
    if (!tell && !state.view.raw) return { state, frames: [], last: ENDS.has(stored.type) };
    const teller = new Teller(state, JSON.parse(stored.body) as SluiceEvent);
    if (state.view.raw) tellRaw(teller, stored);
    tell?.(teller, teller.event);
    const frames = toFrames(teller.events, {
      session: teller.event.session_id,
      sequence: stored.sequence,
    });
    const { behind } = state.view;
    const seen = behind?.sequence === stored.sequence ? behind.index + 1 : 0;
    return {
      state: teller.state,
      frames: seen === 0 ? frames : frames.slice(seen),
      last: teller.isLast || ENDS.has(stored.type),
    };
  },
};

type Tell = { [T in EventType]?: (teller: Teller, event: EventOf<T>) => void };

const TELL: Tell = {
  "session.started": (teller, { data }) =>
    learnAgent(teller, (data.metadata as { agent?: unknown } | undefined)?.agent),
  "process.started": (teller, { data }) => learnAgent(teller, data.harness),
  "session.updated": (teller) => {
    if (teller.state.run) teller.name();
  },
  "turn.started": tellTurnStarted,
  "turn.waiting": tellWaiting,
  "turn.resumed": (teller) => teller.begin(),
  "turn.retrying": (teller, { data }) => {
    const { attempt, max_attempts: maxAttempts, delay_ms: delayMs, error } = data;
    teller.custom("model.retrying", {
      attempt,
      ...(maxAttempts === undefined ? {} : { maxAttempts }),
      delayMs,
      error,
    });
  },
  "turn.ended": tellTurnEnded,
  "item.started": (teller, { data: { item } }) => {
    if (isText(item)) startText(teller, item);
    if (item.kind === "tool_call") startCall(teller, item);
  },
  "item.delta": (teller, { data }) => {
    if (Object.hasOwn(teller.state.texts, data.item_id)) growText(teller, data.item_id, data.delta);
    else growCallOf(teller, data.item_id, data.delta);
  },
  "item.completed": (teller, { data: { item } }) => {
    if (isText(item)) completeText(teller, item);
    if (item.kind === "tool_call") completeCall(teller, item);
    if (item.kind === "tool_result") tellResult(teller, item);
  },
  "permission.requested": keepPermission,
  "permission.resolved": (teller, { data }) => forgetAsk(teller, data.permission_id),
  "question.requested": keepQuestion,
  "question.resolved": (teller, { data }) => forgetAsk(teller, data.question_id),
  "tool.requested": tellToolRequested,
  "tool.resolved": tellToolResolved,
  "plan.updated": (teller, { data: { entries } }) => {
    const by = attribute(teller, teller.event.parent_id);
    const messageId = `${teller.state.turn ?? "turn"}_plan${by.subagentRunId === undefined ? "" : `_${by.subagentRunId}`}`;
    teller.say("ACTIVITY_SNAPSHOT", {
      messageId,
      activityType: "PLAN",
      content: { entries },
      replace: true,
      ...by,
    });
  },
  "model.ended": (teller, { data }) => {
    const { run } = teller.state;
    if (run && data.usage) teller.changeRun({ usage: addUsage(run.usage, data.model ?? "", data.usage) });
  },
  "context.compacted": (teller, { data }) => teller.custom("context.compacted", data),
  "file.changed": (teller, { data }) => {
    const { view, turn, run } = teller.state;
    if (view.fileEvents === false || turn === null) return;
    const { type, path, timestamp } = data;
    const event = { type: "CUSTOM", name: "sandbox.file", value: { type, path, timestamp } };
    if (run) teller.custom(event.name, event.value);
    else teller.hold(event);
  },
  "workspace.diffed": (teller, { data: { path, diff } }) => teller.change({ diff: { path, diff } }),
  custom: (teller, { data }) => {
    if (data.name === RUN_EVENT) return isRun(data.value) ? tellNextRun(teller, data.value) : undefined;
    if (teller.state.turn !== null) teller.custom(data.name, data.value ?? null);
  },
};

const ENDS: ReadonlySet<EventType> = new Set(["session.ended", "session.deleted"]);

function learnAgent(teller: Teller, agent: unknown): void {
  if (teller.state.agent === null && typeof agent === "string") teller.change({ agent });
}

function isText({ kind, role }: Item): boolean {
  return kind === "message" && (role === "assistant" || role === "user");
}

/** A line that could not be written again is told as text. */
function parseRaw(raw: string): unknown {
  try {
    return parseOthersJson(raw);
  } catch {
    return raw;
  }
}

/** Several events may come from one line, which is told once. */
function tellRaw(teller: Teller, { raw }: StoredEventText): void {
  const { run, line, agent } = teller.state;
  if (raw === undefined || raw === line || !run) return;
  teller.change({ line: raw });
  teller.say("RAW", { event: parseRaw(raw), ...(agent === null ? {} : { source: agent }) });
}
