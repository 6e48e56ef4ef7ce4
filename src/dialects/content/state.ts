import type { AgentRuntimeState, SandboxLifecycleState } from "./lifecycle-event.ts";
import type { ToolCallContent } from "./output-event.ts";

/** What is open at this place of the log. */
export interface ContentState {
  /** Whose session it is, as far as that is known: some agents repeat what the user says. */
  readonly agent: string | undefined;
  readonly sandbox: SandboxLifecycleState;
  readonly runtime: AgentRuntimeState;
  readonly turn: { readonly id: string; readonly background: boolean } | null;
  readonly command: { readonly id: string; readonly background: boolean } | null;
  /** Items that have begun, by their id. */
  readonly open: Readonly<Record<string, OpenItem>>;
  /** Calls of this turn, by the id of their item. */
  readonly calls: Readonly<Record<string, OpenCall>>;
  /** The last failure that was told, so that a turn's end need not tell it again. */
  readonly failure: string | null;
}

export type OpenItem =
  | { readonly kind: "text" | "thought" | "user"; readonly shown: number; readonly parent?: string }
  /** A tool's output: the end of it, which is what somebody who watches wants to see. */
  | { readonly kind: "output"; readonly callId: string; readonly tail: string }
  | { readonly kind: "silent" };

export interface OpenCall {
  readonly callId: string;
  readonly name: string;
  readonly content: readonly ToolCallContent[];
  /** Its meaning is told otherwise. */
  readonly silent: boolean;
  /** What its sub-agent has said. */
  readonly said: readonly string[];
}

export interface ContentView {
  readonly agent?: string | undefined;
  /** What the sandbox is where the reading begins; there is none unless this says so. */
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
