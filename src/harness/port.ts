import type {
  ContentPart,
  EventDraft,
  Launch,
  ModelRoute,
  SessionSpec,
  SpoolLine,
  Programs,
} from "../contract/index.ts";

/**
 * One CLI's language. `decode`, `encode` and `overhear` are pure: no clock, no randomness, no I/O. `State` is plain
 * JSON: the decoder state is saved beside the log.
 */
export interface Harness<State = unknown> {
  readonly id: string;
  readonly title: string;
  /** Whether one process serves one turn and ends; the next turn resumes in another process. */
  readonly oneShot?: boolean;
  /**
   * Whether the model gets a session's `instructions` as a system or developer message, even in a resumed conversation.
   */
  readonly takesInstructions?: boolean;
  /** Whether its own tools can be replaced: the tool server then offers those that `tools.client` names. */
  readonly bridgesBuiltins?: boolean;
  /** The folder of its skills, relative to its home. */
  readonly skillsFolder?: string;
  /** The folders of its home that it finds by the path of its workspace; a move to another path renames them. */
  memoryFolders?(workspace: string): readonly string[];
  /** A gap in its tests, such as a missing real CLI. It is printed beside its row of the coverage matrix. */
  readonly caveat?: string;
  /** The choices that are known without the CLI. */
  readonly choices?: Choices;
  /** Sources of its key. The first that exists is used. */
  readonly credentials?: readonly Credential[];
  /** The sources of one session, where its model or environment limits them to one model provider. */
  credentialsFor?(spec: SessionSpec): readonly Credential[];
  /**
   * The way of its model requests through the gateway, with the key in this variable. `plan_login`: the variable holds
   * the login of a plan, which only its own CLI may use. Undefined: its requests cannot go through the gateway.
   */
  lead?(spec: SessionSpec, variable: string): Lead | "plan_login" | undefined;
  /** Further variables with a key that the gateway can use, if the session itself brings it. */
  sessionKeys?(spec: SessionSpec): readonly string[];
  /** Variables with the address of its model. The server's own values are the default of a session. */
  readonly addresses?: readonly string[];
  /**
   * Whether it is installed, and if not, the command that installs it. The version is read on request: that may take
   * seconds.
   */
  detect(options?: { withVersion?: boolean }): Promise<Detected>;
  /** Refuses a spec that no launch can serve, so that the creation of the session fails and not its first turn. */
  check?(spec: SessionSpec): void;
  launch(spec: SessionSpec, context: LaunchContext): Launch;
  initial(context: DecodeContext): State;
  /** The first lines to the CLI, such as a JSON-RPC `initialize`. */
  greet?(state: State): readonly string[];
  /** Decodes one line of either direction. A sent line (`in`) comes at the position at which it was sent. */
  decode(state: State, line: SpoolLine): Decoded<State>;
  /**
   * The lines that carry a command to the CLI. Undefined: the CLI has no such command. "later": the CLI cannot take the
   * command yet, such as before the handshake, and the engine tries again after the next output.
   */
  encode(state: State, command: HarnessCommand): readonly string[] | undefined | "later";
  /** The item of the call that started a sub-agent, by the CLI's own id of the agent; undefined for any other id. */
  parentOf?(state: State, agent: string): string | undefined;
  /** The command of a recorded line to the CLI: the inverse of `encode`. */
  overhear?(state: State, line: SpoolLine): HarnessCommand | undefined;
  /** The features of the coverage matrix that it does not have. */
  readonly lacks?: readonly Feature[];
  /**
   * Native lines that show every feature of the decoder. The coverage matrix is computed from them, in place of
   * `lacks`.
   */
  readonly sample?: readonly SpoolLine[];
}

/** The features of the universal schema's coverage table, and those that sluice adds. */
export const FEATURES = [
  "textMessages",
  "toolCalls",
  "toolResults",
  "questions",
  "permissions",
  "images",
  "fileAttachments",
  "sessionLifecycle",
  "errorEvents",
  "reasoning",
  "commandExecution",
  "fileChanges",
  "mcpTools",
  "streamingDeltas",
  "variants",
  "customTools",
  "plans",
  "subagents",
  "usage",
  "compaction",
  "interrupt",
  "retries",
  "resume",
] as const;
export type Feature = (typeof FEATURES)[number];

export interface Choices {
  /** Values of `agentMode`. Another one is refused. */
  readonly modes: readonly string[];
  /** Values of `model` that are known to work; others are passed on. */
  readonly models?: readonly string[];
  /** Values of `variant`: the reasoning effort. Another one is refused. */
  readonly variants?: readonly string[];
}

export type Credential =
  | { readonly env: string }
  /**
   * `file` is relative to the user's home. The content that `lend` returns goes to the same path in the agent's home.
   */
  | {
      readonly file: string;
      lend(content: string, spec: SessionSpec): LentLogin | undefined;
      /** Set for a file that is no login itself, but belongs to the login before it in the list. */
      readonly isCompanion?: true;
    };

/** An agent's way to its model through the gateway. */
export interface Lead {
  readonly route: ModelRoute;
  /** Its streams are binary, so no cassette can hold them. */
  readonly isBinary?: true;
  /** Further variables of the same credential. The gateway gets all of them, as JSON, and the sandbox none. */
  readonly companions?: readonly string[];
  /** The variables by which the CLI uses the gateway's address. For a CLI without them the launch uses `modelUrl`. */
  variables?(url: string): Readonly<Record<string, string>>;
}

/**
 * The part of a user's login that an agent gets. Means to renew it, and logins for other model providers, are left out.
 */
export type LentLogin =
  | {
      readonly content: string;
      /** In milliseconds since 1970; undefined for a login that does not expire. */
      readonly expiresAt?: number | undefined;
    }
  /** The reason for which a sandbox cannot use the login, and the alternative. */
  | { readonly refusal: string };

export interface Detected {
  readonly installed: boolean;
  readonly version?: string;
  readonly hint?: string;
}

export interface LaunchContext {
  /** The native id of the conversation to continue. */
  readonly resume?: string;
  /** Continue a copy of it, and leave the original unchanged. */
  readonly fork?: boolean;
  /** In-sandbox paths. */
  readonly workspace: string;
  readonly home: string;
  /** Values of `credentials` from outside the session, for variables that its own environment does not set. */
  readonly env?: Readonly<Record<string, string>>;
  /** The content of the lent login's file, if a login is used in place of a key. */
  readonly login?: string;
  /** The gateway's address of the model, in place of the model provider's. */
  readonly modelUrl?: string;
  /** Whether the sandbox isolates the agent, so that the agent's own sandbox is not needed. */
  readonly isolated?: boolean;
  /** Whether the launch is only inspected: no process starts, and the CLI need not be installed. */
  readonly isRehearsal?: boolean;
  /** The programs of the sandbox's own machine; without them, this machine's are used. */
  readonly programs?: Programs;
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
  /** Lines to send to the CLI in answer, such as a JSON-RPC response. */
  readonly replies?: readonly string[];
}

type Agentic<T> = T extends EventDraft
  ? Omit<T, "source" | "turn_id" | "raw"> & { source?: T["source"] }
  : never;

/** Events without the fields that the engine adds. `source` defaults to "agent"; a `turn_id` in the data is empty. */
export type HarnessFact = Agentic<EventDraft> | ModelFailed;

/** The model failed and the CLI has stopped: the engine decides whether to send `retry`. */
export interface ModelFailed {
  readonly type: "model.failed";
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  /** The provider's own delay. */
  readonly retryAfterMs?: number;
  readonly parent_id?: string;
}

export type HarnessCommand =
  | { readonly type: "prompt"; readonly inputId: string; readonly content: readonly ContentPart[] }
  /** A message into the running turn. */
  | { readonly type: "steer"; readonly inputId: string; readonly content: readonly ContentPart[] }
  | { readonly type: "interrupt" }
  | { readonly type: "retry" }
  | {
      readonly type: "permission";
      readonly id: string;
      readonly reply: "once" | "always" | "reject";
      readonly message?: string;
    }
  | {
      readonly type: "question";
      readonly id: string;
      readonly answers?: readonly (readonly string[])[];
      /** The reason, if there are no answers. */
      readonly message?: string;
    }
  | {
      readonly type: "tool";
      readonly id: string;
      readonly content: readonly ContentPart[];
      readonly isError: boolean;
    };
