import type { EventDraft, Item } from "../contract/index.ts";
import type { Drafts } from "./drafts.ts";
import type { QueuedInput, SessionFold } from "./fold.ts";

/** The oldest queued input becomes a turn, and the user's words an item of it. */
export function startTurn(fold: SessionFold, drafts: Drafts): void {
  const input = fold.inbox[0];
  if (!input) return;
  const { inputId, turnId, sequence, payload, options } = input;
  const inputs = sequence === undefined ? {} : { inputs: [{ input_id: inputId, sequence, payload }] };
  const data = {
    turn_id: turnId,
    input_ids: [inputId],
    ...inputs,
    ...(options === undefined ? {} : { options }),
  };
  drafts.addAll([{ type: "turn.started", source: "daemon", data }, ...userItem(input)]);
}

/** What the user said, as an item of the turn that it is said in. */
export function userItem({ inputId, content }: Pick<QueuedInput, "inputId" | "content">): EventDraft[] {
  const item: Item = {
    item_id: toItemId(inputId),
    kind: "message",
    role: "user",
    status: "in_progress",
    content,
  };
  return [
    { type: "item.started", source: "daemon", data: { item } },
    { type: "item.completed", source: "daemon", data: { item: { ...item, status: "completed" } } },
  ];
}

export function toItemId(inputId: string): string {
  return inputId.replace(/^inp_/, "itm_");
}
