import type { Item } from "../../contract/index.ts";
import type { Decoded, HarnessFact } from "../port.ts";
import {
  type IdKind,
  messageItem,
  type OpenRequest,
  own,
  type TextKind,
  toId,
  wholeItem,
  without,
} from "../transcript.ts";

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
  /** The item that deltas belong to. For a running tool call it is the item of the result. */
  readonly streams?: string;
  /** The item of the sub-agent's call that it belongs to. */
  readonly parent?: string;
}

export function initialState(idPrefix: string): ScriptedState {
  return { prefix: idPrefix, count: 0, items: {}, requests: {}, asks: {} };
}

/** The state after a turn. The count of ids stays. */
export function afterTurn(state: ScriptedState): ScriptedState {
  return { ...initialState(state.prefix), count: state.count };
}

export function nextId(state: ScriptedState, kind?: IdKind): [string, ScriptedState] {
  const count = state.count + 1;
  return [toId(state.prefix, count, kind), { ...state, count }];
}

type Result = Decoded<ScriptedState>;

export interface Placed {
  id: string;
  parent?: string | undefined;
}

/** The parent of a line: the item of the sub-agent's call. */
export function parentOf(state: ScriptedState, line: { parent?: string | undefined }): string | undefined {
  return line.parent === undefined ? undefined : own(state.items, line.parent)?.item;
}

export function withParent(parent: string | undefined, fact: HarnessFact): HarnessFact {
  return parent === undefined ? fact : { ...fact, parent_id: parent };
}

export function itemFact(
  type: "item.started" | "item.completed",
  item: Item,
  parent: string | undefined,
): HarnessFact {
  return withParent(parent, { type, data: { item } });
}

export function startText(state: ScriptedState, line: Placed, kind: TextKind): Result | string {
  if (own(state.items, line.id) !== undefined) return `${line.id} cannot start twice`;
  const [id, next] = nextId(state);
  const parent = parentOf(state, line);
  const open = { item: id, streams: id, ...(parent === undefined ? {} : { parent }) };
  const item = messageItem(line.id, { ...open, kind }, { status: "in_progress", text: "" });
  return {
    state: { ...next, items: { ...state.items, [line.id]: open } },
    facts: [itemFact("item.started", item, parent)],
  };
}

export function endText(
  state: ScriptedState,
  line: Placed & { text: string },
  kind: TextKind,
): Result | string {
  const open = own(state.items, line.id);
  if (open === undefined) return `${line.id} cannot end: it has not started`;
  const item = messageItem(line.id, { ...open, kind }, { status: "completed", text: line.text });
  return {
    state: { ...state, items: without(state.items, line.id) },
    facts: [itemFact("item.completed", item, open.parent)],
  };
}

/** An item that starts and completes at once. */
export function addWhole(
  state: ScriptedState,
  line: Placed,
  rest: Pick<Item, "kind" | "role" | "content">,
): Result {
  const [id, next] = nextId(state);
  const parent = parentOf(state, line);
  const item = wholeItem(id, line.id, { ...rest, parent });
  const started: Item = { ...item, status: "in_progress" };
  return {
    state: next,
    facts: [itemFact("item.started", started, parent), itemFact("item.completed", item, parent)],
  };
}

/** A fact with a status item beside it, for views without that fact. */
export function besideStatus(
  state: ScriptedState,
  line: Placed,
  { fact, status }: { fact: HarnessFact; status: Pick<Item, "kind" | "role" | "content"> },
): Result {
  const shown = addWhole(state, line, status);
  return { state: shown.state, facts: [withParent(parentOf(state, line), fact), ...shown.facts] };
}
