import { isRecord, type Usage } from "../../contract/index.ts";
import type { GrownText } from "../shared/grown-text.ts";

/** The open runs, messages and calls at a position of the log. Only the agent's name outlives the turn. */
export interface AgUiState {
  readonly view: AgUiView;
  readonly agent: string | null;
  readonly turn: string | null;
  /** The open run; null while the turn waits for an answer. */
  readonly run: RunState | null;
  /** The count of this turn's runs. */
  readonly runs: number;
  /** The next run, if a client has named it. */
  readonly next: RunPayload | null;
  /** The client's own keys of the shared state. */
  readonly clientState: Readonly<Record<string, unknown>>;
  /** Our part of the shared state as the client has it; null before this turn's first snapshot. */
  readonly shared: Shared | null;
  /** The client's ids of the messages that it sent, by the id of the user's item. */
  readonly sent: Readonly<Record<string, string>>;
  /** Incomplete messages and thoughts by item id. */
  readonly texts: Readonly<Record<string, OpenText>>;
  /** Every call of this turn, by call id. */
  readonly calls: Readonly<Record<string, Call>>;
  /** The message that a new call belongs to, by sub-agent. */
  readonly speaking: Readonly<Record<string, string>>;
  /** Open requests by id. */
  readonly asks: Readonly<Record<string, Ask>>;
  /** Events that wait for a run. */
  readonly held: readonly object[];
  /** The diff of the workspace, for the end of the run. */
  readonly diff: { readonly path: string; readonly diff: string } | null;
  /** The last native line that was emitted. Several events may come from one line, which is emitted once. */
  readonly line: string | null;
}

export interface RunState {
  readonly id: string;
  /** Whether the run's `<harness>.session-id` is emitted. */
  readonly named: boolean;
  /** The protocol version of its frames. */
  readonly protocol?: string;
  /** Sub-agents of this run by the item of their call. */
  readonly subagents: Readonly<Record<string, Subagent>>;
  readonly usage: Readonly<Record<string, Usage>>;
}

export interface Shared {
  readonly status: "running" | "waiting" | "idle";
  readonly pending: readonly { readonly id: string; readonly reason: string; readonly message: string }[];
}

export interface OpenText {
  readonly kind: "text" | "reasoning";
  readonly role: "assistant" | "user";
  readonly messageId: string;
  readonly emitted: GrownText;
  readonly isOpen: boolean;
  /** Its sub-agent: the item of the sub-agent's call, and the run id on the wire. */
  readonly parent?: string;
  readonly subagent?: string;
}

export interface Call {
  readonly itemId: string;
  readonly name: string;
  /** The arguments that were emitted. */
  readonly emitted: GrownText;
  /** The same arguments while they are open and short, for the sub-agent of this call. */
  readonly arguments: string;
  /** The sub-agent's name and description, once the arguments are complete. */
  readonly described?: { readonly name?: string; readonly description?: string };
  /** Whether the arguments are incomplete. */
  readonly isOpen: boolean;
  readonly isAnswered: boolean;
  /** Its sub-agent: the item of the sub-agent's call, and the run id on the wire. */
  readonly parent?: string;
  readonly subagent?: string;
  /** Whether the call is known only from a tool request, without the agent's item. */
  readonly isRequest?: boolean;
  /** The id under which a tool request has already shown this call. */
  readonly alias?: string;
}

export interface Subagent {
  readonly id: string;
  readonly isOpen: boolean;
  readonly times: number;
}

export interface Ask {
  readonly kind: "permission" | "question" | "tool";
  readonly prompt: string;
  readonly callId?: string;
  readonly options?: readonly string[];
  readonly input?: unknown;
  readonly subagent?: string;
}

export function initialState(view: AgUiView): AgUiState {
  return { view, agent: view.agent ?? null, turn: null, ...CLEAN };
}

/** The state between turns. */
export const CLEAN = {
  run: null,
  runs: 0,
  next: null,
  clientState: {},
  shared: null,
  sent: {},
  texts: {},
  calls: {},
  speaking: {},
  asks: {},
  held: [],
  diff: null,
  line: null,
} as const satisfies Partial<AgUiState>;

/** One reader's options. */
export interface AgUiView {
  /** The session's agent, for the name of `<harness>.session-id`. */
  readonly agent?: string;
  /** The client's name of the session (default: the session id). */
  readonly thread?: string;
  /** Only this run; the stream ends with its terminal event. */
  readonly run?: string;
  /** The client's protocol version; clients before 1.0 send none. */
  readonly protocol?: string;
  /** Adds `RAW` events: the agent's own lines. */
  readonly raw?: boolean;
  /** `false` leaves `sandbox.file` events out. */
  readonly fileEvents?: boolean;
  /** The client answers its tools during the run, so a wait for them does not end the run. */
  readonly bridged?: boolean;
  /** Adds users' messages and client tools' results, for a reader that did not send them. */
  readonly inputs?: boolean;
  /** The stream ends with the first terminal event at or after this sequence. */
  readonly until?: number;
  /** The last frame that a returning reader saw of an event with several frames. */
  readonly behind?: { readonly sequence: number; readonly index: number };
}

/** Clients before 1.0 refuse the outcomes and fields of 1.0. */
export function isProtocolOne({ protocol }: { readonly protocol?: string | undefined }): boolean {
  return protocol !== undefined && Number.parseInt(protocol, 10) >= 1;
}

/** A client's names for a run; the log keeps them with the input or the answer that starts the run. */
export interface RunPayload {
  readonly runId: string;
  readonly parentRunId?: string;
  /** The client's protocol version. It also holds for readers of the run that send no version. */
  readonly protocol?: string;
  /** The agent's state as the client keeps it; each snapshot repeats it. */
  readonly state?: Readonly<Record<string, unknown>>;
  /** The client's id of its message. */
  readonly messageId?: string;
  /** The run ends when its client disconnects. */
  readonly cancelOnDisconnect?: true;
}

const PAYLOAD_KEY = "ag-ui";

/** The custom event that names the run of an answer: the events of answers have no such field. */
export const RUN_EVENT = "ag-ui.run";

export function toPayload(run: RunPayload): Record<string, unknown> {
  return { [PAYLOAD_KEY]: run };
}

export function fromPayload(payload: unknown): RunPayload | undefined {
  const run = isRecord(payload) ? payload[PAYLOAD_KEY] : undefined;
  return isRun(run) ? run : undefined;
}

export function isRun(value: unknown): value is RunPayload {
  return isRecord(value) && typeof value["runId"] === "string";
}
