import type { EventDraft, Launch, SessionSpec, SpoolLine, ContentPart } from "../contract/index.ts";

/**
 * One CLI's language. `decode` and `encode` are pure: no clock, no randomness, no I/O.
 * `State` is plain JSON, so that it can be checkpointed beside the log.
 */
export interface Harness<State = unknown> {
  readonly id: string;
  readonly title: string;
  /** One process serves one turn and ends; the next turn resumes in another. */
  readonly oneShot?: boolean;
  /** Whether it can run here, and if not, the one command that helps. */
  detect(): Promise<Detected>;
  launch(spec: SessionSpec, context: LaunchContext): Launch;
  initial(context: DecodeContext): State;
  /** One line of either direction; what was sent (`in`) is seen too, at the place where it was sent. */
  decode(state: State, line: SpoolLine): Decoded<State>;
  /** The lines that carry a command to the CLI, or undefined where it has no words for it. */
  encode(state: State, command: HarnessCommand): readonly string[] | undefined;
  /** Native lines in which every feature of the decoder shows itself; the coverage matrix is computed from them. */
  readonly sample: readonly SpoolLine[];
}

export interface Detected {
  readonly installed: boolean;
  readonly version?: string;
  readonly hint?: string;
}

export interface LaunchContext {
  readonly resume?: string;
  /** In-sandbox paths. */
  readonly workspace: string;
  readonly home: string;
}

export interface DecodeContext {
  /** Makes item ids unique among a session's processes: `${prefix}${n}`. */
  readonly idPrefix: string;
}

export interface Decoded<State> {
  readonly state: State;
  readonly facts: readonly HarnessFact[];
  /** Lines that the CLI awaits in answer, such as a JSON-RPC response. */
  readonly replies?: readonly string[];
}

type Agentic<T> = T extends EventDraft
  ? Omit<T, "source" | "turn_id" | "raw"> & { source?: T["source"] }
  : never;

/** Events without what only the engine knows. `source` is "agent" unless said otherwise; a `turn_id` in the data is left empty. */
export type HarnessFact = Agentic<EventDraft> | ModelFailed;

/** The model failed and the CLI has stopped: the engine decides whether to send `retry`. */
export interface ModelFailed {
  readonly type: "model.failed";
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  /** The provider's own word on when to come back. */
  readonly retryAfterMs?: number;
  readonly parent_id?: string;
}

export type HarnessCommand =
  | { readonly type: "prompt"; readonly inputId: string; readonly content: readonly ContentPart[] }
  | { readonly type: "interrupt" }
  | { readonly type: "retry" }
  | {
      readonly type: "permission";
      readonly id: string;
      readonly reply: "once" | "always" | "reject";
      readonly message?: string;
    }
  | { readonly type: "question"; readonly id: string; readonly answers?: readonly (readonly string[])[] }
  | {
      readonly type: "tool";
      readonly id: string;
      readonly content: readonly ContentPart[];
      readonly isError: boolean;
    };
