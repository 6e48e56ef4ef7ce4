import { type Item, own, without } from "../../contract/index.ts";
import { growBy, NO_TEXT, restBehind } from "../shared/grown-text.ts";
import type { AgUiProjection } from "./projection.ts";
import type { OpenText } from "./state.ts";
import { attribute, toSubagentFields } from "./subagents.ts";

/** Notes a new message or thought. Its first text starts it on the wire; an empty one never appears. */
export function startText(projection: AgUiProjection, item: Item): void {
  const text = toOpenText(projection, item);
  if (text) projection.change({ texts: { ...projection.state.texts, [item.item_id]: text } });
}

export function growText(projection: AgUiProjection, itemId: string, delta: string): void {
  const known = own(projection.state.texts, itemId);
  if (known && delta !== "") emitDelta(projection, itemId, known, delta);
}

export function completeText(projection: AgUiProjection, item: Item): void {
  const known = own(projection.state.texts, item.item_id);
  if (!known) return;
  const rest = restBehind(known.emitted, toMarkdown(item));
  if (rest) emitDelta(projection, item.item_id, known, rest);
  endText(projection, item.item_id);
  projection.change({ texts: without(projection.state.texts, item.item_id) });
}

/** Closes the open messages at a run's end; their next text opens them again in the next run. */
export function endTexts(projection: AgUiProjection): void {
  for (const itemId of Object.keys(projection.state.texts)) endText(projection, itemId);
}

/** A user's message goes only to readers that did not send it. */
function toOpenText({ state, event }: AgUiProjection, item: Item): OpenText | undefined {
  const { item_id: itemId, content, role } = item;
  const base = { messageId: itemId, emitted: NO_TEXT, isOpen: false } as const;
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

function emitDelta(projection: AgUiProjection, itemId: string, known: OpenText, delta: string): void {
  const { messageId, kind } = known;
  const isNew = !known.isOpen;
  const by = isNew ? attribute(projection, known.parent) : toSubagentFields(known);
  const subagent = by.subagentRunId;
  if (isNew && kind === "reasoning") {
    projection.emit("REASONING_START", { messageId, ...by });
    projection.emit("REASONING_MESSAGE_START", { messageId, role: "reasoning", ...by });
  }
  if (isNew && kind === "text") {
    projection.emit("TEXT_MESSAGE_START", { messageId, role: known.role, ...by });
    if (known.role === "assistant")
      projection.change({ speaking: { ...projection.state.speaking, [subagent ?? ""]: messageId } });
  }
  projection.emit(kind === "text" ? "TEXT_MESSAGE_CONTENT" : "REASONING_MESSAGE_CONTENT", {
    messageId,
    delta,
    ...by,
  });
  const next = {
    ...known,
    emitted: growBy(known.emitted, delta),
    isOpen: true,
    ...(subagent === undefined ? {} : { subagent }),
  };
  projection.change({ texts: { ...projection.state.texts, [itemId]: next } });
}

function endText(projection: AgUiProjection, itemId: string): void {
  const known = own(projection.state.texts, itemId);
  if (!known?.isOpen) return;
  const { messageId } = known;
  const by = toSubagentFields(known);
  if (known.kind === "text") projection.emit("TEXT_MESSAGE_END", { messageId, ...by });
  else {
    projection.emit("REASONING_MESSAGE_END", { messageId, ...by });
    projection.emit("REASONING_END", { messageId, ...by });
  }
  projection.change({ texts: { ...projection.state.texts, [itemId]: { ...known, isOpen: false } } });
}

/** This dialect's messages show an image only as a link. */
function toMarkdown({ content }: Item): string {
  return content
    .map((part) => {
      if (part.type === "text" || part.type === "reasoning") return part.text;
      return part.type === "image" && !part.path.startsWith("data:") ? `![image](${part.path})` : "";
    })
    .join("");
}
