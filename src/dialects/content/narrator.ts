import type { SluiceEvent } from "../../contract/index.ts";
import type { AgentRuntimeState, LifecycleReason, SandboxLifecycleState } from "./lifecycle-event.ts";
import type { SessionUpdate } from "./output-event.ts";
import type { ContentState } from "./state.ts";
import type { Told } from "./told.ts";

/** Holds the state and what is told while one event is projected. */
export class Narrator {
  readonly event: SluiceEvent;
  readonly told: Told[] = [];
  #state: ContentState;

  constructor(state: ContentState, event: SluiceEvent) {
    this.#state = state;
    this.event = event;
  }

  get state(): ContentState {
    return this.#state;
  }

  change(change: Partial<ContentState>): void {
    this.#state = { ...this.#state, ...change };
  }

  content(update: SessionUpdate): void {
    const sessionId = this.event.native_session_id;
    this.told.push({ type: "content", event: sessionId === undefined ? { update } : { sessionId, update } });
  }

  /** The state first, then the event that says so. */
  lifecycle(reason: LifecycleReason, sandbox: SandboxLifecycleState, runtime: AgentRuntimeState): void {
    this.change({ sandbox, runtime });
    const { session_id: sandboxId, time: timestamp } = this.event;
    this.told.push({ type: "lifecycle", event: { sandboxId, sandbox, agent: runtime, timestamp, reason } });
  }

  output(stream: "stdout" | "stderr", chunk: string): void {
    if (chunk !== "") this.told.push({ type: stream, chunk });
  }
}
