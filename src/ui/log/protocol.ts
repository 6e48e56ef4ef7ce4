import type { ContentPart, PendingAction, PlanEntry, Usage } from "../../contract/index.ts";

/** The state of a session at one moment of its log. */
export interface Moment {
  status: "idle" | "running" | "waiting" | "retrying" | "ended";
  turnId: string | null;
  turnStartedAt: number | null;
  pending: PendingAction[];
  queue: { inputId: string; turnId: string; text: string; sequence: number }[];
  plan: PlanEntry[];
  usage: Usage;
  turnUsage: Usage;
  paused: boolean;
  title: string | null;
  model: string | null;
  sandbox: string | null;
  nativeSessionId: string | null;
  /** The newest checkpoint. */
  checkpoint: { id: string; sequence: number } | null;
  /** Whether the turn was asked to stop. */
  interrupted: boolean;
  command: string | null;
  ended: string | null;
  deleted: boolean;
}

/** One turn of the log. */
export interface TurnSummary {
  readonly id: string;
  readonly index: number;
  readonly first: number;
  /** 0 while the turn runs. */
  last: number;
  readonly startedAt: number;
  endedAt: number;
  status: "running" | "completed" | "failed" | "interrupted";
  stopReason: string;
  title: string;
  usage: Usage;
  calls: number;
  errors: number;
  asks: number;
}

export interface Mark {
  readonly sequence: number;
  readonly kind: "turn" | "ask" | "error" | "checkpoint";
  readonly label: string;
  /** The id of a checkpoint. */
  readonly id?: string;
}

export type RowKind =
  | "turn"
  | "message"
  | "thought"
  | "tool"
  | "ask"
  | "plan"
  | "diff"
  | "command"
  | "status"
  | "files"
  | "checkpoint"
  | "error"
  | "note";

/** One line of the transcript as it was at the shown moment. */
export interface RowView {
  /** The sequence of the first event, by which the row is known. */
  readonly sequence: number;
  readonly last: number;
  readonly kind: RowKind;
  /** The type of the first event. */
  readonly type: string;
  readonly time: number;
  readonly endTime: number;
  readonly depth: number;
  readonly id: string;
  readonly open: boolean;
  /** Grows with every change of the row. */
  readonly version: number;
  readonly turn?: TurnSummary;
  readonly role?: string;
  readonly text?: string;
  /** How many characters of the text were left out. */
  readonly cut?: number;
  readonly name?: string;
  readonly input?: string;
  readonly output?: string;
  readonly failed?: boolean;
  readonly images?: readonly string[];
  readonly diffs?: readonly { path: string; diff: string }[];
  readonly ask?: AskView;
  readonly plan?: readonly PlanEntry[];
  readonly exit?: number;
  readonly entries?: readonly { type: string; path: string }[];
  readonly data?: string;
  /** How many rows a sub-agent has, and whether they are hidden. */
  readonly nested?: { readonly count: number; readonly hidden: boolean };
  readonly by?: string;
}

export interface AskView {
  readonly kind: PendingAction["kind"];
  readonly id: string;
  readonly prompt: string;
  readonly options?: readonly string[] | undefined;
  readonly input?: string;
  readonly answer?: string;
  readonly answered: boolean;
}

/** How the page is connected to the log. */
export interface Link {
  readonly state: "opening" | "catching-up" | "live" | "lost" | "resting" | "over" | "offline";
  readonly reason?: string;
  /** Events that came twice or were missing since the page opened. Both stay 0. */
  readonly gaps: number;
  readonly doubles: number;
  readonly cuts: number;
}

/** What the page shows of the log, sent at most once per frame. */
export interface Screen {
  readonly type: "screen";
  readonly base: number;
  readonly head: number;
  /** The shown moment: a sequence, or the head. */
  readonly at: number;
  readonly atTime: number;
  readonly headTime: number;
  readonly link: Link;
  /** What the log itself does not say. */
  readonly about: { readonly agent: string; readonly title: string | null };
  readonly moment: Moment;
  /** Absent where unchanged. */
  readonly turns?: readonly TurnSummary[];
  readonly marks?: readonly Mark[];
  readonly rowCount: number;
  /** The index of the first of `rows`. */
  readonly from: number;
  readonly rows: readonly RowView[];
  /** Whether the whole log is indexed. */
  readonly complete: boolean;
  readonly missing: boolean;
}

/** Characters of a request's input that the page shows. */
export const MAX_REQUEST = 20_000;

/** A screen on its way to the page, without what the page has from the one before. */
export interface ScreenChange extends Omit<Screen, "rows" | "moment"> {
  /** A number is a row that is unchanged, by its sequence. */
  readonly rows: readonly (RowView | number)[];
  /** Absent where unchanged. */
  readonly moment?: Moment;
}

export interface View {
  /** Null follows the head. */
  readonly at: number | null;
  readonly from: number;
  readonly count: number;
  /** The last `count` rows of the moment, wherever they begin. */
  readonly end: boolean;
  /** Every event has a row. */
  readonly all: boolean;
  /** Sub-agents whose rows are hidden, by the id of their item. */
  readonly hidden: readonly string[];
}

export interface EventText {
  readonly sequence: number;
  readonly type: string;
  readonly time: number;
  readonly body: string;
}

export interface FrameRow extends EventText {
  readonly raw?: string;
  /** The frames of each dialect, as they are on the wire. */
  readonly frames: Readonly<Record<string, readonly string[]>>;
}

export interface SearchHit {
  readonly sequence: number;
  readonly type: string;
  readonly before: string;
  readonly match: string;
  readonly after: string;
}

/** A piece of work with a beginning and an end. */
export interface Span {
  readonly index: number;
  /** An `agent` is the call of a sub-agent; `people` is a request that waits for somebody. */
  kind: "turn" | "model" | "tool" | "agent" | "people" | "command" | "retry";
  /** The item of a tool call; empty for others. */
  readonly id: string;
  /** The item of the sub-agent that does it; empty for the main agent. */
  readonly owner: string;
  readonly sequence: number;
  /** The sequence of its end; 0 while it is open. */
  last: number;
  readonly start: number;
  /** 0 while it is open. */
  end: number;
  /** The time and the event of a model's first answer; 0 before. */
  firstToken: number;
  firstTokenAt: number;
  label: string;
  /** The arguments of a tool call. */
  input: string;
  failed: boolean;
  /** The number of its turn; 0 outside of turns. */
  readonly turn: number;
  model?: string;
  usage?: Usage;
  estimated?: boolean;
  version: number;
}

/** The spans that changed since a version. Another `log` begins a new list. */
export interface SpanChanges {
  readonly log: number;
  readonly version: number;
  readonly head: number;
  readonly spans: readonly Span[];
}

/** The calls of the page, each with its answer. */
export interface Calls {
  /** Very long events are in a short form, unless the whole is asked for. */
  events(range: { from: number; count: number; whole?: boolean }): EventText[];
  frames(range: {
    from: number;
    count: number;
    dialects: readonly string[];
    raw: boolean;
    whole?: boolean;
  }): FrameRow[];
  search(query: { text: string; limit: number }): { hits: SearchHit[]; total: number };
  /** The index of the row that shows an event. */
  rowOf(sequence: number): number;
  /** The whole row, with nothing left out. */
  row(sequence: number): RowView | undefined;
  /** The events of some types in a range, at most the newest 2,000 of them; with `last`, the newest alone. */
  pick(given: { types: readonly string[]; from: number; to: number; last?: boolean }): EventText[];
  /** With `only`, the first row of the range. */
  markdown(range: { from: number; to: number; only?: boolean }): string;
  moment(at: number): Moment;
  /** The spans of the work that changed since the last answer. */
  spans(since: { log: number; version: number }): SpanChanges;
  /** The rows of some events as they were at a moment, with long texts left out. */
  rowsAt(given: { at: number; sequences: readonly number[] }): RowView[];
}

export type ToLog =
  | { type: "open"; session: string; proof: string | null; events?: string[]; info?: unknown }
  | { type: "view"; view: View }
  | { type: "ready" }
  /** Whether somebody can see the page. A log that nobody sees has no stream. */
  | { type: "visible"; visible: boolean }
  | { type: "close" }
  | { type: "call"; id: number; name: keyof Calls; given: unknown };

export type FromLog =
  | ScreenChange
  | { type: "answer"; id: number; result?: unknown; failure?: string }
  | { type: "failed"; code: string; title: string; detail: string };

export type { ContentPart };
