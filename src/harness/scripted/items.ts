import type { ContentPart, Item } from "../../contract/index.ts";
import type { Decoded, HarnessFact } from "../port.ts";
import { nextId, own, type ScriptedState, without } from "./state.ts";

/** How items begin and end, and where they stand in a sub-agent's lineage. */

type Result = Decoded<ScriptedState>;

export interface Placed {
  id: string;
  parent?: string | undefined;
}

/** The item of the sub-agent's call that a line stands under. */
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

export function startText(state: ScriptedState, line: Placed, part: ContentPart): Result | string {
  if (own(state.items, line.id) !== undefined) return `${line.id} cannot start twice`;
  const [id, next] = nextId(state);
  const parent = parentOf(state, line);
  const open = { item: id, streams: id, ...(parent === undefined ? {} : { parent }) };
  const item = messageItem(id, line.id, { status: "in_progress", part, parent });
  return {
    state: { ...next, items: { ...state.items, [line.id]: open } },
    facts: [itemFact("item.started", item, parent)],
  };
}

export function endText(state: ScriptedState, line: Placed, part: ContentPart): Result | string {
  const open = own(state.items, line.id);
  if (open === undefined) return `${line.id} cannot end: it has not started`;
  const item = messageItem(open.item, line.id, { status: "completed", part, parent: open.parent });
  return {
    state: { ...state, items: without(state.items, line.id) },
    facts: [itemFact("item.completed", item, open.parent)],
  };
}

function messageItem(
  id: string,
  native: string,
  rest: { status: Item["status"]; part: ContentPart; parent: string | undefined },
): Item {
  const { status, part, parent } = rest;
  return {
    item_id: id,
    native_item_id: native,
    ...(parent === undefined ? {} : { parent_id: parent }),
    kind: "message",
    role: "assistant",
    status,
    content: [part],
  };
}

export function resultItem(
  native: string,
  ids: { call: string; result: string },
  rest: Pick<Item, "status" | "content">,
): Item {
  return {
    item_id: ids.result,
    native_item_id: native,
    parent_id: ids.call,
    kind: "tool_result",
    role: "tool",
    ...rest,
  };
}

/** An item that is complete as soon as it is there. */
export function wholeItem(
  state: ScriptedState,
  line: Placed,
  rest: Pick<Item, "kind" | "role" | "content">,
): Result {
  const [id, next] = nextId(state);
  const parent = parentOf(state, line);
  const item: Item = {
    item_id: id,
    native_item_id: line.id,
    ...(parent === undefined ? {} : { parent_id: parent }),
    ...rest,
    status: "completed",
  };
  const started: Item = { ...item, status: "in_progress" };
  return {
    state: next,
    facts: [itemFact("item.started", started, parent), itemFact("item.completed", item, parent)],
  };
}

/** A fact that seed 004 does not know, and the status item in which its readers see it. */
export function besideStatus(
  state: ScriptedState,
  line: Placed,
  { fact, label, detail }: { fact: HarnessFact; label: string; detail?: string },
): Result {
  const part: ContentPart = { type: "status", label, ...(detail === undefined ? {} : { detail }) };
  const shown = wholeItem(state, line, { kind: "status", role: "assistant", content: [part] });
  return { state: shown.state, facts: [under(state, line, fact), ...shown.facts] };
}
