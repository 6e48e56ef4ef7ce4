import { Projection } from "../shared/projection.ts";
import type {
  AgentRuntimeState,
  LifecycleEvent,
  LifecycleReason,
  OutputEvent,
  SandboxLifecycleState,
  SessionUpdate,
  ToolCallContent,
} from "./events.ts";

/** One event of the log as SDK events, and the state after it. */
export class SdkProjection extends Projection<ContentState> {
  readonly emitted: Emitted[] = [];

  content(update: SessionUpdate): void {
    const sessionId = this.event.native_session_id;
    this.emitted.push({
      type: "content",
      event: sessionId === undefined ? { update } : { sessionId, update },
    });
  }

  /** Changes the state and emits the change. */
  lifecycle(reason: LifecycleReason, sandbox: SandboxLifecycleState, runtime: AgentRuntimeState): void {
    this.change({ sandbox, runtime });
    const { session_id: sandboxId, time: timestamp } = this.event;
    this.emitted.push({
      type: "lifecycle",
      event: { sandboxId, sandbox, agent: runtime, timestamp, reason },
    });
  }

  output(stream: "stdout" | "stderr", chunk: string): void {
    if (chunk !== "") this.emitted.push({ type: stream, chunk });
  }
}

/** The open turn, command, items and calls at a position of the log. */
export interface ContentState {
  /** The session's agent, if known: some agents repeat the user's messages. */
  readonly agent: string | undefined;
  readonly sandbox: SandboxLifecycleState;
  readonly runtime: AgentRuntimeState;
  readonly turn: { readonly id: string; readonly background: boolean } | null;
  readonly command: { readonly id: string; readonly background: boolean } | null;
  /** Open items by id. */
  readonly open: Readonly<Record<string, OpenItem>>;
  /** Calls of this turn by the id of their item. */
  readonly calls: Readonly<Record<string, OpenCall>>;
  /** The last failure that was emitted; the turn's end does not repeat it. */
  readonly failure: string | null;
}

export type OpenItem =
  | { readonly kind: "text" | "thought" | "user"; readonly shown: number; readonly parent?: string }
  /** A tool's output, of which only the end is kept. */
  | { readonly kind: "output"; readonly callId: string; readonly tail: string }
  | { readonly kind: "silent" };

export interface OpenCall {
  readonly callId: string;
  readonly name: string;
  readonly content: readonly ToolCallContent[];
  /** Whether the call is hidden, because another event shows its effect. */
  readonly silent: boolean;
  /** The messages of the sub-agent that the call started. */
  readonly said: readonly string[];
}

export interface ContentView {
  readonly agent?: string | undefined;
  /** The sandbox's state before the first event (default: stopped). */
  readonly sandbox?: SandboxLifecycleState | undefined;
}

export function initialContent(view: ContentView = {}): ContentState {
  return {
    agent: view.agent,
    sandbox: view.sandbox ?? "stopped",
    runtime: "idle",
    turn: null,
    command: null,
    open: {},
    calls: {},
    failure: null,
  };
}

/** An event for a listener of the SDK. */
export type Emitted =
  | { readonly type: "content"; readonly event: OutputEvent }
  | { readonly type: "lifecycle"; readonly event: LifecycleEvent }
  | { readonly type: "stdout" | "stderr"; readonly chunk: string };
