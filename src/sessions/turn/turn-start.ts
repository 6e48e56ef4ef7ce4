import { defined } from "../../contract/own-keys.ts";
import type { EventDraft, Item } from "../../contract/index.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { QueuedInput } from "../fold/queue.ts";
import type { SessionFold } from "../fold/session-fold.ts";

/** Starts a turn with the oldest queued input, and adds the user's message as an item. */
export function startTurn(fold: SessionFold, drafts: Drafts): void {
  const input = fold.inbox[0];
  if (!input) return;
  const { inputId, turnId, sequence, payload, options } = input;
  const content = input.replaced ? { content: input.content } : {};
  const inputs = sequence === undefined ? undefined : [{ input_id: inputId, sequence, payload, ...content }];
  const data = { turn_id: turnId, input_ids: [inputId], ...defined({ inputs, options }) };
  drafts.addAll([{ type: "turn.started", source: "daemon", data }, ...userItem(input)]);
}

/** The user's message as an item of its turn. */
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
