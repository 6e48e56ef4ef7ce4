import { own, type ContentPart, type EventDraft, type Item } from "../contract/index.ts";
import type { SessionFold } from "./fold.ts";

/** What an agent leaves out of an item's life is filled in before its end: the start, and one delta of the text. Pure. */
export function synthesized(fold: SessionFold, item: Item, parentId: string | undefined): EventDraft[] {
  const open = (fold.turn && own(fold.turn.open, item.item_id)) ?? own(fold.open, item.item_id);
  const text = item.content.map(textOf).join("");
  const events: EventDraft[] = [];
  const by = { source: "daemon", parent_id: parentId } as const;
  if (!open) {
    const started: Item = { ...item, status: "in_progress", content: item.content.map(emptied) };
    events.push({ type: "item.started", ...by, data: { item: started } });
  }
  const isStreamed = item.kind === "message" && item.role !== "user" && text !== "";
  if (isStreamed && (open?.text ?? "") === "") {
    const native = item.native_item_id === undefined ? {} : { native_item_id: item.native_item_id };
    events.push({ type: "item.delta", ...by, data: { item_id: item.item_id, ...native, delta: text } });
  }
  return events;
}

function textOf(part: ContentPart): string {
  return part.type === "text" || part.type === "reasoning" ? part.text : "";
}

function emptied(part: ContentPart): ContentPart {
  return part.type === "text" || part.type === "reasoning" ? { ...part, text: "" } : part;
}
