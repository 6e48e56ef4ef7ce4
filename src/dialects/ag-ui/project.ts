import { AUTHOR_EVENT, type Item, parseJsonOr, type SluiceEvent } from "../../contract/index.ts";
import { SENT_EVENT } from "../anthropic/projection.ts";
import type { Dialect, StoredEventText } from "../port.ts";
import { endsSession, findProjector, NO_FRAMES, type Projectors } from "../shared/projection.ts";
import { toFrames } from "./frames.ts";
import { AgUiProjection } from "./projection.ts";
import { projectNextRun, runProjectors } from "./runs.ts";
import { type AgUiState, type AgUiView, initialState, isRun, RUN_EVENT } from "./state.ts";
import { attribute } from "./subagents.ts";
import { completeText, growText, startText } from "./texts.ts";
import { completeCall, growCallOf, projectResult, startCall, toolProjectors } from "./tool-calls.ts";

/** The log as AG-UI clients read it. A turn is one run, and one more after each wait for an answer. */
export const agUi: Dialect<AgUiState, AgUiView> = {
  id: "ag-ui",
  memory: "turn",
  wantsRaw: (view) => view.raw === true,
  initial: initialState,
  project(state, stored) {
    const projector = findProjector(PROJECTORS, stored.type);
    const ends = endsSession(stored.type);
    if (!projector && !state.view.raw) return { state, frames: NO_FRAMES, last: ends };
    const projection = new AgUiProjection(state, JSON.parse(stored.body) as SluiceEvent);
    if (state.view.raw) emitRaw(projection, stored);
    projector?.(projection, projection.event);
    const frames = toFrames(projection.events, {
      session: projection.event.session_id,
      sequence: stored.sequence,
    });
    const { behind } = state.view;
    const seen = behind?.sequence === stored.sequence ? behind.index + 1 : 0;
    return {
      state: projection.state,
      frames: seen === 0 ? frames : frames.slice(seen),
      last: projection.isLast || ends,
    };
  },
};

const PROJECTORS: Projectors<AgUiProjection> = {
  ...runProjectors,
  ...toolProjectors,
  "session.started": (projection, { data }) =>
    learnAgent(projection, (data.metadata as { agent?: unknown } | undefined)?.agent),
  "process.started": (projection, { data }) => learnAgent(projection, data.harness),
  "session.updated": (projection) => {
    if (projection.state.run) projection.nameSession();
  },
  "turn.resumed": (projection) => projection.begin(),
  "turn.retrying": (projection, { data }) => {
    const { attempt, max_attempts: maxAttempts, delay_ms: delayMs, error } = data;
    projection.custom("model.retrying", {
      attempt,
      ...(maxAttempts === undefined ? {} : { maxAttempts }),
      delayMs,
      error,
    });
  },
  "item.started": (projection, { data: { item } }) => {
    if (isText(item)) startText(projection, item);
    if (item.kind === "tool_call") startCall(projection, item);
  },
  "item.delta": (projection, { data }) => {
    if (Object.hasOwn(projection.state.texts, data.item_id)) growText(projection, data.item_id, data.delta);
    else growCallOf(projection, data.item_id, data.delta);
  },
  "item.completed": (projection, { data: { item } }) => {
    if (isText(item)) completeText(projection, item);
    if (item.kind === "tool_call") completeCall(projection, item);
    if (item.kind === "tool_result") projectResult(projection, item);
  },
  "plan.updated": (projection, { data: { entries } }) => {
    const by = attribute(projection, projection.event.parent_id);
    const messageId = `${projection.state.turn ?? "turn"}_plan${by.subagentRunId === undefined ? "" : `_${by.subagentRunId}`}`;
    projection.emit("ACTIVITY_SNAPSHOT", {
      messageId,
      activityType: "PLAN",
      content: { entries },
      replace: true,
      ...by,
    });
  },
  "context.compacted": (projection, { data }) => projection.custom("context.compacted", data),
  "file.changed": (projection, { data }) => {
    const { view, turn, run } = projection.state;
    if (view.fileEvents === false || turn === null) return;
    const { type, path, timestamp } = data;
    const value = { type, path, timestamp };
    if (run) projection.custom("sandbox.file", value);
    else projection.hold("CUSTOM", { name: "sandbox.file", value });
  },
  "workspace.diffed": (projection, { data: { path, diff } }) => projection.change({ diff: { path, diff } }),
  custom: (projection, { data }) => {
    if (data.name === AUTHOR_EVENT) return;
    if (data.name === RUN_EVENT)
      return isRun(data.value) ? projectNextRun(projection, data.value) : undefined;
    // Skipped: the next event is the answer itself.
    if (data.name === SENT_EVENT) return;
    if (projection.state.turn !== null) projection.custom(data.name, data.value ?? null);
  },
};

function learnAgent(projection: AgUiProjection, agent: unknown): void {
  if (projection.state.agent === null && typeof agent === "string") projection.change({ agent });
}

function isText({ kind, role }: Item): boolean {
  return kind === "message" && (role === "assistant" || role === "user");
}

/** Emits the native line once, although several events may come from it. A line that is no JSON is emitted as text. */
function emitRaw(projection: AgUiProjection, { raw }: StoredEventText): void {
  const { run, line, agent } = projection.state;
  if (raw === undefined || raw === line || !run) return;
  projection.change({ line: raw });
  projection.emit("RAW", { event: parseJsonOr(raw, raw), ...(agent === null ? {} : { source: agent }) });
}
