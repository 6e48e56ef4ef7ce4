import type { EventDraft, Launch, SessionSpec, SpoolLine, ContentPart } from "../contract/index.ts";

/**
 * One CLI's language. `decode`, `encode` and `overhear` are pure: no clock, no randomness, no I/O.
 * `State` is plain JSON, so that it can be checkpointed beside the log.
 */
export interface Harness<State = unknown> {
  readonly id: string;
  readonly title: string;
  /** One process serves one turn and ends; the next turn resumes in another. */
  readonly oneShot?: boolean;
  /** Its model hears a session's `instructions` as its system's or developer's words, also in a conversation that it resumes. */
  readonly takesInstructions?: boolean;
  /** Its own tools can be taken from it, and those that `tools.client` names be offered through the tool bridge instead. */
  readonly bridgesBuiltins?: boolean;
  /** Where it looks for skills, below its home. */
  readonly skillsFolder?: string;
  /** What its tests could not have, such as the real CLI: stands beside its row of the coverage matrix. */
  readonly caveat?: string;
  /** What may be chosen of it, as far as it is known without asking the CLI. */
  readonly choices?: Choices;
  /** Where its key may come from, the first that is there being used. */
  readonly credentials?: readonly Credential[];
  /** Those of them that this session could use, where its model or its environment decides that: never another provider's. */
  credentialsFor?(spec: SessionSpec): readonly Credential[];
  /** Variables that say where its model is: the server's own hold where a session sets none. */
  readonly addresses?: readonly string[];
  /** Whether it can run here, and if not, the one command that helps. Its version is asked for only when wanted: that may take seconds. */
  detect(options?: { withVersion?: boolean }): Promise<Detected>;
  /** Refuses what no launch could ever do, when the session is made and not when its first turn fails. */
  check?(spec: SessionSpec): void;
  launch(spec: SessionSpec, context: LaunchContext): Launch;
  initial(context: DecodeContext): State;
  /** What is said to the CLI before anything else, such as a JSON-RPC `initialize`. */
  greet?(state: State): readonly string[];
  /** One line of either direction; what was sent (`in`) is seen too, at the place where it was sent. */
  decode(state: State, line: SpoolLine): Decoded<State>;
  /**
   * The lines that carry a command to the CLI; undefined where it has no words for it; "later" while it cannot
   * be told yet, such as before the handshake is done: the engine asks again after the CLI's next words.
   */
  encode(state: State, command: HarnessCommand): readonly string[] | undefined | "later";
  /** What somebody told the CLI by a recorded line: the way back from `encode`, for reading recordings. */
  overhear?(state: State, line: SpoolLine): HarnessCommand | undefined;
  /** Native lines in which every feature of the decoder shows itself; the coverage matrix is computed from them. */
  readonly sample: readonly SpoolLine[];
}

export interface Choices {
  /** Values of `agentMode`. Another one is refused. */
  readonly modes: readonly string[];
  /** Values of `model` that are known to work; others are passed on. */
  readonly models?: readonly string[];
  /** Values of `variant`: how hard it thinks. Another one is refused. */
  readonly variants?: readonly string[];
}

export type Credential =
  | { readonly env: string }
  /** Relative to the user's home; what `lend` makes of it is placed at the same path of the agent's home. */
  | {
      readonly file: string;
      lend(content: string, spec: SessionSpec): LentLogin | undefined;
      /** It comes along with the login that stands before it, and is none itself. */
      readonly isCompanion?: true;
    };

/** A user's login as an agent gets it: nothing in it renews it, and nothing in it is another provider's. */
export type LentLogin =
  | {
      readonly content: string;
      /** In milliseconds since 1970; undefined where it does not expire. */
      readonly expiresAt?: number | undefined;
    }
  /** Why it cannot be used in a sandbox, and what to do instead. */
  | { readonly refusal: string };

export interface Detected {
  readonly installed: boolean;
  readonly version?: string;
  readonly hint?: string;
}

export interface LaunchContext {
  /** The native id of the conversation to continue. */
  readonly resume?: string;
  /** Continue it as another one, and leave the old one as it is. */
  readonly fork?: boolean;
  /** In-sandbox paths. */
  readonly workspace: string;
  readonly home: string;
  /** What was found of `credentials`, for those that the session's own environment does not set. */
  readonly env?: Readonly<Record<string, string>>;
  /** The login that was found instead of a key: what its file holds for the agent. */
  readonly login?: string;
  /** Whether the place holds the agent in: what it would do to hold itself in is not needed there. */
  readonly isolated?: boolean;
  /** Nothing will be started: what the launch would be is only looked at, and the CLI need not be there. */
  readonly isRehearsal?: boolean;
}

export interface DecodeContext {
  /** Makes item ids unique among a session's processes: `${prefix}${n}`. */
  readonly idPrefix: string;
  readonly spec: SessionSpec;
  readonly workspace: string;
  readonly home: string;
  readonly resume?: string;
  readonly fork?: boolean;
  readonly isolated?: boolean;
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
  /** More words for the turn that runs, where the CLI can take them. */
  | { readonly type: "steer"; readonly inputId: string; readonly content: readonly ContentPart[] }
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
