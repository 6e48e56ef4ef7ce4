import type { Usage } from "../../contract/index.ts";
import type { RunPayload } from "./payload.ts";
import type { AgUiView } from "./view.ts";

/** What is open at this place of the log. Nothing of it outlives its turn but what the agent is called. */
export interface AgUiState {
  readonly view: AgUiView;
  readonly agent: string | null;
  readonly turn: string | null;
  /** The run that is open. A turn that waits for its application has none. */
  readonly run: RunState | null;
  /** How many runs this turn had. */
  readonly runs: number;
  /** What the client calls the run that comes next. */
  readonly next: RunPayload | null;
  /** What the client keeps as the agent's state. */
  readonly clientState: Readonly<Record<string, unknown>>;
  /** What was told of us in it, by this turn's last snapshot and what changed since. */
  readonly shared: Shared | null;
  /** The user's items that the client has itself, with the ids that it gave them. */
  readonly sent: Readonly<Record<string, string>>;
  /** Messages and thoughts that are not complete, by item id. */
  readonly texts: Readonly<Record<string, OpenText>>;
  /** Every call of this turn, by call id. */
  readonly calls: Readonly<Record<string, Call>>;
  /** The message that a call made now would belong to, by whose it is. */
  readonly speaking: Readonly<Record<string, string>>;
  /** What is asked and not answered, by its id. */
  readonly asks: Readonly<Record<string, Ask>>;
  /** Told as soon as there is a run to tell it in. */
  readonly held: readonly object[];
  /** What the files have come to; told when the agent has finished. */
  readonly diff: { readonly path: string; readonly diff: string } | null;
  /** The native line that was told last: several events may come from one. */
  readonly line: string | null;
}

export interface RunState {
  readonly id: string;
  /** Whether its `<harness>.session-id` was told. */
  readonly named: boolean;
  /** The version that its frames are told in. */
  readonly protocol?: string;
  /** Sub-agents that were told of in this run, by the item of their call. */
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
  /** What was told of it. */
  readonly text: string;
  readonly isOpen: boolean;
  /** The sub-agent whose it is: the item that stands for it, and once it is told, what it is called on the wire. */
  readonly parent?: string;
  readonly owner?: string;
}

export interface Call {
  readonly itemId: string;
  readonly name: string;
  readonly arguments: string;
  /** Its arguments are still being told. */
  readonly isOpen: boolean;
  readonly isAnswered: boolean;
  /** The sub-agent that made it: the item that stands for it, and what it is called on the wire. */
  readonly parent?: string;
  readonly owner?: string;
  /** Known only by the request for it: the agent's own item of it has not come. */
  readonly isRequest?: boolean;
  /** Told already, under the id of the request for it. */
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
  readonly owner?: string;
}

export function initialState(view: AgUiView): AgUiState {
  return { view, agent: view.agent ?? null, turn: null, ...CLEAN };
}

/** A turn's end is a clean cut. */
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

export function without<T>(record: Readonly<Record<string, T>>, key: string): Readonly<Record<string, T>> {
  if (!Object.hasOwn(record, key)) return record;
  const { [key]: _, ...rest } = record;
  return rest;
}
