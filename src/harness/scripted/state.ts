/** What the decoder must remember from line to line. Plain JSON, never changed in place. */
export interface ScriptedState {
  readonly prefix: string;
  /** How many ids have been given out. */
  readonly count: number;
  /** Texts, thoughts and tool calls of the running turn, by native id. */
  readonly items: Readonly<Record<string, OpenItem>>;
  /** Model requests that run, by native id. */
  readonly requests: Readonly<Record<string, OpenRequest>>;
  /** What waits for an answer: our id → the agent's. */
  readonly asks: Readonly<Record<string, string>>;
}

export interface OpenItem {
  readonly item: string;
  /** The item that the deltas belong to: for a tool call that of its result, once it runs. */
  readonly streams?: string;
  /** The sub-agent's call under which it happens. */
  readonly parent?: string;
}

export interface OpenRequest {
  readonly id: string;
  readonly parent?: string;
}

export function initialState(idPrefix: string): ScriptedState {
  return { prefix: idPrefix, count: 0, items: {}, requests: {}, asks: {} };
}

/** A turn's end is a clean cut: only the ids go on. */
export function atTurnsEdge(state: ScriptedState): ScriptedState {
  return { ...initialState(state.prefix), count: state.count };
}

/** The next id, unique among the session's processes by the prefix that the engine gave. */
export function nextId(
  state: ScriptedState,
  kind?: "perm" | "ques" | "treq" | "mreq",
): [string, ScriptedState] {
  const count = state.count + 1;
  const base = kind === undefined ? state.prefix : `${kind}_${state.prefix.replace(/^itm_/, "")}`;
  return [`${base}${count}`, { ...state, count }];
}

/** Ids come from outside, and may be called `constructor`. */
export function own<T>(map: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

export function without<T>(map: Readonly<Record<string, T>>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(map).filter(([name]) => name !== key));
}
