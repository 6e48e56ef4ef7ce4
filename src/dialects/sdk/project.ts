import type { SluiceEvent } from "../../contract/index.ts";
import type { Dialect, Frame } from "../port.ts";
import { endsSession, findProjector, NO_FRAMES, type Projectors } from "../shared/projection.ts";
import { projectDelta, projectItemCompleted, projectItemStarted } from "./items.ts";
import {
  projectCommandEnded,
  projectCommandStarted,
  projectError,
  projectKilled,
  projectResumed,
  projectTurnEnded,
  projectTurnStarted,
} from "./lifecycle.ts";
import {
  type ContentState,
  type ContentView,
  type Emitted,
  initialContent,
  SdkProjection,
} from "./projection.ts";

export interface FrameView extends ContentView {
  /** Limits the frames to one of the two event types. */
  readonly only?: "content" | "lifecycle";
}

interface FrameState {
  readonly view: FrameView;
  readonly content: ContentState;
}

/** The SDK's `content` and `lifecycle` events as frames. */
export const content: Dialect<FrameState, FrameView> = {
  id: "content",
  memory: "turn",
  initial: (view) => ({ view, content: initialContent(view) }),
  project(state, stored) {
    const last = endsSession(stored.type);
    if (!PROJECTORS[stored.type]) return { state, frames: NO_FRAMES, last };
    const event = JSON.parse(stored.body) as SluiceEvent;
    const projected = projectContent(state.content, event);
    const frames = projected.emitted.flatMap((part): Frame[] => {
      if (part.type !== "content" && part.type !== "lifecycle") return [];
      if (state.view.only !== undefined && state.view.only !== part.type) return [];
      return [{ event: part.type, data: JSON.stringify(part.event) }];
    });
    return { state: { ...state, content: projected.state }, frames, last };
  },
};

/** The SDK events of one event of the log, and the state after it. Pure. */
export function projectContent(
  state: ContentState,
  event: SluiceEvent,
): { readonly state: ContentState; readonly emitted: readonly Emitted[] } {
  const projector = findProjector(PROJECTORS, event.type);
  if (!projector) return { state, emitted: [] };
  const projection = new SdkProjection(state, event);
  projector(projection, event);
  return { state: projection.state, emitted: projection.emitted };
}

const PROJECTORS: Projectors<SdkProjection> = {
  "session.started": (projection, { data }) => {
    const agent = (data.metadata as { agent?: unknown } | undefined)?.agent;
    if (typeof agent === "string") projection.change({ agent });
  },
  "process.started": (projection, { data }) => projection.change({ agent: data.harness }),
  "item.started": projectItemStarted,
  "item.delta": projectDelta,
  "item.completed": projectItemCompleted,
  "plan.updated": (projection, { data }) =>
    projection.content({ sessionUpdate: "plan", entries: data.entries.map((entry) => ({ ...entry })) }),
  "process.output": (projection, { data }) => projection.output(data.stream, data.text),
  "command.output": (projection, { data }) => projection.output(data.stream, data.text),
  error: projectError,
  "turn.started": projectTurnStarted,
  "turn.ended": projectTurnEnded,
  "command.started": projectCommandStarted,
  "command.ended": projectCommandEnded,
  "sandbox.boot": (projection) =>
    projection.lifecycle("sandbox_boot", { sandbox: "booting", runtime: "idle" }),
  "sandbox.ready": (projection) =>
    projection.lifecycle("sandbox_ready", { sandbox: "ready", runtime: "idle" }),
  "sandbox.connected": (projection) =>
    projection.lifecycle("sandbox_connected", { sandbox: "ready", runtime: "idle" }),
  "sandbox.paused": (projection) =>
    projection.lifecycle("sandbox_pause", { sandbox: "paused", runtime: projection.state.runtime }),
  "sandbox.resumed": projectResumed,
  "sandbox.error": (projection) =>
    projection.lifecycle("sandbox_error", { sandbox: "error", runtime: "error" }),
  "sandbox.killed": projectKilled,
  "session.ended": projectKilled,
  "session.deleted": projectKilled,
};
