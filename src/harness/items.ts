import type { ContentPart, Item, PlanEntry } from "../contract/index.ts";
import type { OpenText } from "./transcript.ts";

/** Items of texts, calls and results, in one shape for all CLIs. */

export function messageItem(
  native: string,
  open: Pick<OpenText, "item" | "kind" | "parent">,
  { status, text }: { status: Item["status"]; text: string },
): Item {
  const part: ContentPart =
    open.kind === "text" ? { type: "text", text } : { type: "reasoning", text, visibility: "public" };
  return {
    item_id: open.item,
    native_item_id: native,
    ...(open.parent === undefined ? {} : { parent_id: open.parent }),
    kind: "message",
    role: "assistant",
    status,
    content: [part],
  };
}

export function callItem(
  native: string,
  call: { item: string; name: string; parent?: string | undefined },
  text: string,
): Item {
  return {
    item_id: call.item,
    native_item_id: native,
    ...(call.parent === undefined ? {} : { parent_id: call.parent }),
    kind: "tool_call",
    role: "assistant",
    status: "in_progress",
    content: [{ type: "tool_call", name: call.name, arguments: text, call_id: native }],
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

/** An item that starts and completes at once. */
export function wholeItem(
  id: string,
  native: string | undefined,
  { parent, ...rest }: Pick<Item, "kind" | "role" | "content"> & { parent: string | undefined },
): Item {
  return {
    item_id: id,
    ...(native === undefined ? {} : { native_item_id: native }),
    ...(parent === undefined ? {} : { parent_id: parent }),
    ...rest,
    status: "completed",
  };
}

/** A plan as a status item with its progress, for views without the event `plan.updated`. */
export function planItem(entries: readonly PlanEntry[]): Pick<Item, "kind" | "role" | "content"> {
  const { content, ...rest } = statusItem("plan", progressOf(entries));
  return { ...rest, content: [...content, { type: "json", json: { entries: [...entries] } }] };
}

/** A status item, such as a plan, a retry or a compaction. */
export function statusItem(label: string, detail?: string): Pick<Item, "kind" | "role" | "content"> {
  const part: ContentPart = { type: "status", label, ...(detail === undefined ? {} : { detail }) };
  return { kind: "status", role: "assistant", content: [part] };
}

function progressOf(entries: readonly PlanEntry[]): string {
  const done = entries.filter((entry) => entry.status === "completed").length;
  const now = entries.find((entry) => entry.status === "in_progress");
  return `${done} of ${entries.length} done${now === undefined ? "" : `: ${now.content}`}`;
}
