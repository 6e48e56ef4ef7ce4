import type { SluiceEvent } from "../../contract/index.ts";
import type { Dialect, Frame } from "../port.ts";
import { endsSession, findProjector, NO_FRAMES, type Projectors } from "../shared/projection.ts";
import type { LifecycleReason } from "./events.ts";
import { itemProjectors } from "./items.ts";
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
  ...itemProjectors,
  "session.started": (projection, { data }) => {
    const agent = (data.metadata as { agent?: unknown } | undefined)?.agent;
    if (typeof agent === "string") projection.change({ agent });
  },
  "process.started": (projection, { data }) => projection.change({ agent: data.harness }),
  "plan.updated": (projection, { data }) =>
    projection.content({ sessionUpdate: "plan", entries: data.entries.map((entry) => ({ ...entry })) }),
  "process.output": (projection, { data }) => projection.output(data.stream, data.text),
  "command.output": (projection, { data }) => projection.output(data.stream, data.text),
  /** A failure goes to stderr, never into the agent's messages. */
  error: (projection, { data }) => {
    projection.change({ failure: data.message });
    projection.output("stderr", `${data.message}\n`);
  },
  "turn.started": (projection, { data }) => {
    projection.change({
      turn: { id: data.turn_id, background: data.options?.background === true },
      open: {},
      calls: {},
      failure: null,
    });
    projection.lifecycle("run_start", "running", "running");
  },
  "turn.ended": (projection, { data }) => {
    const background = projection.state.turn?.background === true;
    const isReported = data.error?.message === projection.state.failure;
    if (data.error && !isReported) projection.output("stderr", `${data.error.message}\n`);
    projection.change({ turn: null, open: {}, calls: {}, failure: null });
    reportEnd(projection, { kind: "run", background, status: data.status });
  },
  "command.started": (projection, { data }) => {
    projection.change({ command: { id: data.command_id, background: data.background === true } });
    projection.lifecycle("command_start", "running", "running");
  },
  "command.ended": (projection, { data }) => {
    const background = projection.state.command?.background === true;
    projection.change({ command: null });
    reportEnd(projection, { kind: "command", background, status: data.status });
  },
  "sandbox.boot": (projection) => projection.lifecycle("sandbox_boot", "booting", "idle"),
  "sandbox.ready": (projection) => projection.lifecycle("sandbox_ready", "ready", "idle"),
  "sandbox.connected": (projection) => projection.lifecycle("sandbox_connected", "ready", "idle"),
  "sandbox.paused": (projection) => projection.lifecycle("sandbox_pause", "paused", projection.state.runtime),
  "sandbox.resumed": (projection) => {
    const { runtime } = projection.state;
    projection.lifecycle("sandbox_resume", isBusy(projection) ? "running" : "ready", runtime);
  },
  "sandbox.error": (projection) => projection.lifecycle("sandbox_error", "error", "error"),
  "sandbox.killed": projectKilled,
  "session.ended": projectKilled,
  "session.deleted": projectKilled,
};

interface End {
  readonly kind: "run" | "command";
  readonly background: boolean;
  readonly status: "completed" | "failed" | "interrupted";
}

/** A run and a background command may overlap: after the end of one, the other still runs. */
function reportEnd(projection: SdkProjection, end: End): void {
  const reason = toEndReason(end);
  if (isBusy(projection)) return projection.lifecycle(reason, "running", "running");
  projection.lifecycle(reason, "ready", RUNTIMES[end.status]);
}

const RUNTIMES = { completed: "idle", failed: "error", interrupted: "interrupted" } as const;

function toEndReason({ kind, background, status }: End): LifecycleReason {
  if (status === "interrupted") return `${kind}_interrupted`;
  const isDone = status === "completed";
  if (background) return isDone ? `${kind}_background_complete` : `${kind}_background_failed`;
  return isDone ? `${kind}_complete` : `${kind}_failed`;
}

function isBusy({ state: { turn, command } }: SdkProjection): boolean {
  return turn !== null || command !== null;
}

/** Reports the end of the sandbox once: the end of its session is the end of the sandbox too. */
function projectKilled(projection: SdkProjection): void {
  const { sandbox } = projection.state;
  projection.change({ turn: null, command: null });
  // A stopped sandbox has reported its end, a failed one its error.
  if (sandbox === "stopped" || sandbox === "error") return;
  projection.lifecycle("sandbox_killed", "stopped", "idle");
}
