import type { EventDraft, Item } from "../contract/index.ts";
import type { Drafts } from "./drafts.ts";
import type { SessionFold } from "./fold.ts";

/** The oldest queued input becomes a turn, and the user's words an item of it. */
export function startTurn(fold: SessionFold, drafts: Drafts): void {
  const input = fold.inbox[0];
  if (!input) return;
  const item: Item = {
    item_id: input.inputId.replace(/^inp_/, "itm_"),
    kind: "message",
    role: "user",
    status: "in_progress",
    content: input.content,
  };
  const events: EventDraft[] = [
    { type: "turn.started", source: "daemon", data: { turn_id: input.turnId, input_ids: [input.inputId] } },
    { type: "item.started", source: "daemon", data: { item } },
    { type: "item.completed", source: "daemon", data: { item: { ...item, status: "completed" } } },
  ];
  drafts.addAll(events);
}
