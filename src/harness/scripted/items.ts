import type { Item } from "../../contract/index.ts";
import { messageItem, wholeItem } from "../items.ts";
import type { Decoded, HarnessFact } from "../port.ts";
import { own, type TextKind, without } from "../transcript.ts";
import { nextId, type ScriptedState } from "./state.ts";

/** The start and the end of items, with their parents. */

type Result = Decoded<ScriptedState>;

export interface Placed {
  id: string;
  parent?: string | undefined;
}

/** The parent of a line: the item of the sub-agent's call. */
export function parentOf(state: ScriptedState, line: { parent?: string | undefined }): string | undefined {
  return line.parent === undefined ? undefined : own(state.items, line.parent)?.item;
}

export function inside(parent: string | undefined, fact: HarnessFact): HarnessFact {
  return parent === undefined ? fact : { ...fact, parent_id: parent };
}

export function under(
  state: ScriptedState,
  line: { parent?: string | undefined },
  fact: HarnessFact,
): HarnessFact {
  return inside(parentOf(state, line), fact);
}

export function itemFact(
  type: "item.started" | "item.completed",
  item: Item,
  parent: string | undefined,
): HarnessFact {
  return inside(parent, { type, data: { item } });
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

/** A fact that the universal transcript does not have, with a status item for its readers. */
export function besideStatus(
  state: ScriptedState,
  line: Placed,
  { fact, status }: { fact: HarnessFact; status: Pick<Item, "kind" | "role" | "content"> },
): Result {
  const shown = addWhole(state, line, status);
  return { state: shown.state, facts: [under(state, line, fact), ...shown.facts] };
}
