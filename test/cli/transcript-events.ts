import pc from "picocolors";
import { renderEvent } from "../../src/cli/transcript/render.ts";
import { initialTranscript } from "../../src/cli/transcript/state.ts";
import type { EventData, EventType, Item, SluiceEvent } from "../../src/contract/index.ts";

let sequence = 0;

export function event<T extends EventType>(
  type: T,
  data: EventData<T>,
  more: Partial<SluiceEvent> = {},
): SluiceEvent {
  sequence += 1;
  const envelope = {
    event_id: `evt_${sequence}`,
    sequence,
    session_id: "s1",
    source: "agent",
    synthetic: false,
  };
  return { ...envelope, time: "2026-01-01T00:00:00.000Z", type, data, ...more } as SluiceEvent;
}

export function render(
  events: readonly SluiceEvent[],
  options: { color?: boolean; width?: number } = {},
): string {
  return pieces(events, options).join("");
}

export function pieces(
  events: readonly SluiceEvent[],
  options: { color?: boolean; width?: number } = {},
): string[] {
  let state = initialTranscript({
    paint: pc.createColors(options.color ?? false),
    width: options.width ?? Infinity,
  });
  return events.map((event) => {
    const rendered = renderEvent(state, event);
    state = rendered.state;
    return rendered.text;
  });
}

export function message(id: string, text: string, more: Partial<Item> = {}): Item {
  return {
    item_id: id,
    kind: "message",
    role: "assistant",
    status: "completed",
    content: [{ type: "text", text }],
    ...more,
  };
}

export function streamed(
  id: string,
  deltas: readonly string[],
  kind: "text" | "reasoning" = "text",
): SluiceEvent[] {
  const part = (text: string) =>
    kind === "text"
      ? { type: "text" as const, text }
      : { type: "reasoning" as const, text, visibility: "public" as const };
  const item = (text: string, status: Item["status"]): Item => ({
    item_id: id,
    kind: "message",
    role: "assistant",
    status,
    content: [part(text)],
  });
  return [
    event("item.started", { item: item("", "in_progress") }),
    ...deltas.map((delta) => event("item.delta", { item_id: id, delta })),
    event("item.completed", { item: item(deltas.join(""), "completed") }),
  ];
}

export function called(id: string, name: string, args: unknown): SluiceEvent {
  const content = [{ type: "tool_call" as const, name, arguments: JSON.stringify(args), call_id: id }];
  return event("item.completed", {
    item: { item_id: `i${id}`, kind: "tool_call", status: "completed", content },
  });
}

export function result(id: string, output: string, more: Partial<Item> = {}): SluiceEvent[] {
  const item: Item = {
    item_id: `r${id}`,
    kind: "tool_result",
    role: "tool",
    status: "completed",
    content: [{ type: "tool_result", call_id: id, output }],
    ...more,
  };
  const started: Item = {
    ...item,
    status: "in_progress",
    content: [{ type: "tool_result", call_id: id, output: "" }],
  };
  return [event("item.started", { item: started }), event("item.completed", { item })];
}

export function entry(content: string, status: "pending" | "in_progress" | "completed") {
  return { content, status, priority: "medium" as const };
}
