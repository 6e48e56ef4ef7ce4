import type { ContentPart, EventOf, Item, SluiceEvent } from "../../src/contract/index.ts";
import { ofType } from "../support/engine.ts";

/** The main agent's texts at the end of the log. */
export function wordsOf(events: readonly SluiceEvent[], kind: "text" | "reasoning" = "text"): string[] {
  return ofType(events, "item.completed")
    .filter(({ data: { item }, parent_id: parent }) => isSaid(item) && parent === undefined)
    .flatMap(({ data }) => data.item.content.flatMap((part) => (part.type === kind ? [part.text] : [])));
}

export function callsOf(events: readonly SluiceEvent[]): { name: string; input: unknown }[] {
  return ofType(events, "item.completed").flatMap((event) =>
    event.data.item.content.flatMap((part) =>
      part.type === "tool_call" ? [{ name: part.name, input: JSON.parse(part.arguments) }] : [],
    ),
  );
}

export function callNamesOf(events: readonly SluiceEvent[]): string[] {
  return ofType(events, "item.completed").flatMap(({ data }) =>
    data.item.content.flatMap((part) => (part.type === "tool_call" ? [part.name] : [])),
  );
}

export function resultsOf(events: readonly SluiceEvent[]): Item[] {
  return ofType(events, "item.completed")
    .map((event) => event.data.item)
    .filter((item) => item.kind === "tool_result");
}

/** The tool results in order: status, output, and the other parts. */
export function outcomesOf(
  events: readonly SluiceEvent[],
): { status: string; output: string; rest: ContentPart[] }[] {
  return resultsOf(events).flatMap(({ status, content: [first, ...rest] }) =>
    first?.type === "tool_result" ? [{ status, output: first.output, rest }] : [],
  );
}

export function isCall(event: EventOf<"item.completed">): boolean {
  return event.data.item.kind === "tool_call";
}

function isSaid(item: Item): boolean {
  return item.role === "assistant" && item.kind === "message";
}
