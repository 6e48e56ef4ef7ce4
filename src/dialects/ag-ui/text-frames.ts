import { own } from "../../contract/ownKeys.ts";
import type { Item } from "../../contract/index.ts";
import { type OpenText, without } from "./state.ts";
import { attribute, ownerOf } from "./subagent-frames.ts";
import type { Teller } from "./teller.ts";

/** A message or a thought begins on the wire with its first words: what stays empty is never told. */
export function startText(teller: Teller, item: Item): void {
  const text = toOpenText(teller, item);
  if (text) teller.change({ texts: { ...teller.state.texts, [item.item_id]: text } });
}

export function growText(teller: Teller, itemId: string, delta: string): void {
  const known = own(teller.state.texts, itemId);
  if (known && delta !== "") tell(teller, itemId, known, delta);
}

export function completeText(teller: Teller, item: Item): void {
  const known = own(teller.state.texts, item.item_id);
  if (!known) return;
  const whole = wordsOf(item);
  const rest = whole.startsWith(known.text) ? whole.slice(known.text.length) : "";
  if (rest !== "") tell(teller, item.item_id, known, rest);
  endText(teller, item.item_id);
  teller.change({ texts: without(teller.state.texts, item.item_id) });
}

/** A run that ends in the middle of a message closes it; the next one opens it again. */
export function endTexts(teller: Teller): void {
  for (const itemId of Object.keys(teller.state.texts)) endText(teller, itemId);
}

/** What the client said itself is told to those who have not heard it. */
function toOpenText({ state, event }: Teller, item: Item): OpenText | undefined {
  const { item_id: itemId, content, role } = item;
  const base = { messageId: itemId, text: "", isOpen: false } as const;
  if (role === "user") {
    const sent = own(state.sent, itemId);
    if (sent !== undefined && state.view.inputs !== true) return undefined;
    return { ...base, kind: "text", role: "user", messageId: sent ?? itemId };
  }
  const kind = content[0]?.type === "reasoning" ? "reasoning" : "text";
  return {
    ...base,
    kind,
    role: "assistant",
    ...(event.parent_id === undefined ? {} : { parent: event.parent_id }),
  };
}

function tell(teller: Teller, itemId: string, known: OpenText, delta: string): void {
  const { messageId, kind } = known;
  const isNew = !known.isOpen;
  const by = isNew ? attribute(teller, known.parent) : ownerOf(known);
  const owner = by.subagentRunId;
  if (isNew && kind === "reasoning") {
    teller.say("REASONING_START", { messageId, ...by });
    teller.say("REASONING_MESSAGE_START", { messageId, role: "reasoning", ...by });
  }
  if (isNew && kind === "text") {
    teller.say("TEXT_MESSAGE_START", { messageId, role: known.role, ...by });
    if (known.role === "assistant")
      teller.change({ speaking: { ...teller.state.speaking, [owner ?? ""]: messageId } });
  }
  teller.say(kind === "text" ? "TEXT_MESSAGE_CONTENT" : "REASONING_MESSAGE_CONTENT", {
    messageId,
    delta,
    ...by,
  });
  const next = {
    ...known,
    text: known.text + delta,
    isOpen: true,
    ...(owner === undefined ? {} : { owner }),
  };
  teller.change({ texts: { ...teller.state.texts, [itemId]: next } });
}

function endText(teller: Teller, itemId: string): void {
  const known = own(teller.state.texts, itemId);
  if (!known?.isOpen) return;
  const { messageId } = known;
  const by = ownerOf(known);
  if (known.kind === "text") teller.say("TEXT_MESSAGE_END", { messageId, ...by });
  else {
    teller.say("REASONING_MESSAGE_END", { messageId, ...by });
    teller.say("REASONING_END", { messageId, ...by });
  }
  teller.change({ texts: { ...teller.state.texts, [itemId]: { ...known, isOpen: false } } });
}

/** A picture has no place in a message of this dialect but as a link. */
function wordsOf({ content }: Item): string {
  return content
    .map((part) => {
      if (part.type === "text" || part.type === "reasoning") return part.text;
      return part.type === "image" && !part.path.startsWith("data:") ? `![image](${part.path})` : "";
    })
    .join("");
}
