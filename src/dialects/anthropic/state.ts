import type { DeltaType } from "./event-types.ts";

export interface AnthropicView {
  /** A stored history: each event once, where it was processed, and nothing that is still queued. */
  readonly list?: boolean;
  /** Previews of these, as they grow. */
  readonly deltas?: readonly DeltaType[];
  /** SDKs before 0.136 read only events of this one name. */
  readonly legacy?: boolean;
  /** A reader that was cut between two frames of one event has these of it already. */
  readonly seen?: { readonly sequence: number; readonly frames: number };
}

/** What is open at this place of the log. Nothing of it outlives its turn but what was said between turns. */
export interface AnthropicState {
  readonly view: AnthropicView;
  readonly turn: string | null;
  /** Accepted while no turn was running: told when a turn starts. */
  readonly arrived: readonly Arrived[];
  /** The user's items whose words were told in the client's own form already, by item id. */
  readonly echoed: readonly string[];
  /** In the model's order: calls of which nothing is known yet but that they were made, and request ends behind them. */
  readonly held: readonly Held[];
  /** Told calls without their result, by call id. */
  readonly calls: Readonly<Record<string, Call>>;
  /** A permission that was just asked for: the next event says whether anybody has to decide. */
  readonly asked: Asked | null;
  /** Open requests by their id. */
  readonly requests: Readonly<Record<string, Request>>;
  /** Messages and thoughts that have begun: the id that they will have. */
  readonly opened: Readonly<Record<string, Opened>>;
  /** Model requests without their end: the id of the span's start. */
  readonly models: Readonly<Record<string, string>>;
  /** Failures that the turn's end may tell of itself. */
  readonly failures: readonly {
    readonly code?: string;
    readonly message: string;
    readonly sequence: number;
  }[];
  /** The session is about to end, and was said to. */
  readonly doomed: boolean;
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
  | { readonly kind: "span"; readonly sequence: number; readonly fields: Record<string, unknown> };

export interface Call {
  readonly eventId: string;
  readonly kind: "toolset" | "mcp" | "custom";
  /** The application runs it, and what it answers is the result. */
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
  return { view, ...CLEAN, turn: null, arrived: [], doomed: false };
}

/** A turn's end is a clean cut. */
export const CLEAN = {
  echoed: [],
  held: [],
  calls: {},
  asked: null,
  requests: {},
  opened: {},
  models: {},
  failures: [],
} as const;
