export interface AnthropicView {
  /** The stored history: each event once, at its processing, without queued events. */
  readonly list?: boolean;
  /** The event types to preview as they grow. */
  readonly deltas?: readonly DeltaType[];
  /** For SDKs before 1.0, which read only SSE events named `message`. */
  readonly legacy?: boolean;
  /** The frames of one event that a returning reader saw. */
  readonly seen?: { readonly sequence: number; readonly frames: number };
}

/** The open calls, requests and messages at a position of the log. Only inputs between turns outlive a turn. */
export interface AnthropicState {
  readonly view: AnthropicView;
  readonly turn: string | null;
  /** Inputs accepted between turns; the next turn's start shows them. */
  readonly arrived: readonly Arrived[];
  /** The user's items that were echoed in the client's own form. */
  readonly echoed: readonly string[];
  /** Calls whose permission is not known yet, and the ends of model requests after them, in the model's order. */
  readonly held: readonly Held[];
  /** Emitted calls without a result, by call id. */
  readonly calls: Readonly<Record<string, Call>>;
  /** A permission request; the next event shows whether a person has to decide. */
  readonly asked: Asked | null;
  /** Open requests by id. */
  readonly requests: Readonly<Record<string, Request>>;
  /** The client's own form of an answer. The next event is the answer itself. */
  readonly sent: { readonly sequence: number; readonly payload: unknown } | null;
  /** Open messages and thoughts with their future event ids. */
  readonly opened: Readonly<Record<string, Opened>>;
  /** Open model requests with the event id of the span's start. */
  readonly models: Readonly<Record<string, string>>;
  /** Failures that the turn's end may report itself. */
  readonly failures: readonly {
    readonly code?: string;
    readonly message: string;
    readonly sequence: number;
    readonly isOfEngine: boolean;
  }[];
  /** Whether the last turn ended with a terminal error, so that the session's end follows. */
  readonly isEnding: boolean;
}

/** The fields of `span.model_request_end`. */
export interface SpanEnd {
  readonly model_request_start_id: string;
  readonly is_error: boolean;
  readonly model_usage: {
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly cache_read_input_tokens: number;
    readonly cache_creation_input_tokens: number;
  };
}

export interface Arrived {
  readonly inputId: string;
  readonly sequence: number;
  readonly payload: unknown;
}

export type Held =
  | {
      readonly kind: "call";
      readonly callId: string;
      readonly name: string;
      readonly input: unknown;
      readonly sequence: number;
    }
  | { readonly kind: "span"; readonly sequence: number; readonly fields: SpanEnd };

export interface Call {
  readonly eventId: string;
  readonly kind: "toolset" | "mcp" | "custom";
  /** Whether the application runs the call. Its answer is then the result. */
  readonly client?: boolean;
}

export interface Asked {
  readonly permissionId: string;
  readonly callId: string;
  readonly name: string;
  readonly input: unknown;
  readonly sequence: number;
}

export interface Request {
  readonly eventId: string;
  readonly kind: "permission" | "tool" | "custom" | "question";
}

export interface Opened {
  readonly eventId: string;
  readonly type: DeltaType;
  readonly previewed: boolean;
}

export function initialState(view: AnthropicView): AnthropicState {
  return { view, ...CLEAN, turn: null, arrived: [], isEnding: false };
}

/** The state between turns. */
export const CLEAN = {
  echoed: [],
  held: [],
  calls: {},
  asked: null,
  requests: {},
  sent: null,
  opened: {},
  models: {},
  failures: [],
} as const;

/** The types that a list can be filtered by, including types that sluice never emits. */
export const EVENT_TYPES = [
  "user.message",
  "user.interrupt",
  "user.tool_confirmation",
  "user.custom_tool_result",
  "user.tool_result",
  "user.define_outcome",
  "agent.message",
  "agent.thinking",
  "agent.tool_use",
  "agent.tool_result",
  "agent.mcp_tool_use",
  "agent.mcp_tool_result",
  "agent.custom_tool_use",
  "agent.thread_context_compacted",
  "agent.thread_message_received",
  "agent.thread_message_sent",
  "session.status_running",
  "session.status_rescheduled",
  "session.status_idle",
  "session.status_terminated",
  "session.error",
  "session.updated",
  "session.deleted",
  "session.usage",
  "session.thread_created",
  "session.thread_status_running",
  "session.thread_status_idle",
  "session.thread_status_rescheduled",
  "session.thread_status_terminated",
  "span.model_request_start",
  "span.model_request_end",
  "span.outcome_evaluation_start",
  "span.outcome_evaluation_ongoing",
  "span.outcome_evaluation_end",
  "system.message",
  "workflow_run.created",
  "workflow_run.status_running",
  "workflow_run.status_idle",
  "workflow_run.status_ended",
  "workflow_run.error",
  "workflow_run.phase_started",
  "workflow_run.phase_ended",
] as const;

/** The types with previews. */
export const DELTA_TYPES = ["agent.message", "agent.thinking"] as const;
export type DeltaType = (typeof DELTA_TYPES)[number];
