import type { EventOf, EventType, SluiceEvent } from "../../contract/index.ts";
import { tellDelta, tellItemCompleted, tellItemStarted } from "./items.ts";
import { Narrator } from "./narrator.ts";
import type { ContentState } from "./state.ts";
import {
  tellCommandEnded,
  tellCommandStarted,
  tellError,
  tellKilled,
  tellResumed,
  tellTurnEnded,
  tellTurnStarted,
} from "./states.ts";
import type { Told } from "./told.ts";

/** What one event of the log comes to, and what is open behind it. Pure. */
export function projectContent(
  state: ContentState,
  event: SluiceEvent,
): { readonly state: ContentState; readonly told: readonly Told[] } {
  const tell = TELL[event.type] as ((narrator: Narrator, event: SluiceEvent) => void) | undefined;
  if (!tell) return { state, told: [] };
  const narrator = new Narrator(state, event);
  tell(narrator, event);
  return { state: narrator.state, told: narrator.told };
}

export function isTold(type: EventType): boolean {
  return TELL[type] !== undefined;
}

const TELL: { [T in EventType]?: (narrator: Narrator, event: EventOf<T>) => void } = {
  "session.started": (narrator, { data }) => {
    const agent = (data.metadata as { agent?: unknown } | undefined)?.agent;
    if (typeof agent === "string") narrator.change({ agent });
  },
  "process.started": (narrator, { data }) => narrator.change({ agent: data.harness }),
  "item.started": tellItemStarted,
  "item.delta": tellDelta,
  "item.completed": tellItemCompleted,
  "plan.updated": (narrator, { data }) =>
    narrator.content({ sessionUpdate: "plan", entries: data.entries.map((entry) => ({ ...entry })) }),
  "process.output": (narrator, { data }) => narrator.output(data.stream, data.text),
  "command.output": (narrator, { data }) => narrator.output(data.stream, data.text),
  error: tellError,
  "turn.started": tellTurnStarted,
  "turn.ended": tellTurnEnded,
  "command.started": tellCommandStarted,
  "command.ended": tellCommandEnded,
  "sandbox.boot": (narrator) => narrator.lifecycle("sandbox_boot", "booting", "idle"),
  "sandbox.ready": (narrator) => narrator.lifecycle("sandbox_ready", "ready", "idle"),
  "sandbox.connected": (narrator) => narrator.lifecycle("sandbox_connected", "ready", "idle"),
  "sandbox.paused": (narrator) => narrator.lifecycle("sandbox_pause", "paused", narrator.state.runtime),
  "sandbox.resumed": tellResumed,
  "sandbox.error": (narrator) => narrator.lifecycle("sandbox_error", "error", "error"),
  "sandbox.killed": tellKilled,
  "session.ended": tellKilled,
  "session.deleted": tellKilled,
};
