import { type IdKind, type OpenRequest, toId } from "../transcript.ts";

/** The decoder's state. Plain JSON, never changed in place. */
export interface ScriptedState {
  readonly prefix: string;
  /** How many ids have been given out. */
  readonly count: number;
  /** Texts, thoughts and tool calls of the running turn, by native id. */
  readonly items: Readonly<Record<string, OpenItem>>;
  /** Model requests that run, by native id. */
  readonly requests: Readonly<Record<string, OpenRequest>>;
  /** Open asks: our id → the agent's. */
  readonly asks: Readonly<Record<string, string>>;
}

export interface OpenItem {
  readonly item: string;
  /** The item of the deltas: for a running tool call that of its result. */
  readonly streams?: string;
  /** The sub-agent's call under which it happens. */
  readonly parent?: string;
}

export function initialState(idPrefix: string): ScriptedState {
  return { prefix: idPrefix, count: 0, items: {}, requests: {}, asks: {} };
}

/** The state after a turn: only the ids go on. */
export function afterTurn(state: ScriptedState): ScriptedState {
  return { ...initialState(state.prefix), count: state.count };
}

export function nextId(state: ScriptedState, kind?: IdKind): [string, ScriptedState] {
  const count = state.count + 1;
  return [toId(state.prefix, count, kind), { ...state, count }];
}
