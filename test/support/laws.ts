import { expect } from "vitest";
import { SluiceEvent, type Item } from "../../src/contract/index.ts";

/** The rules of every log of an idle or ended session. */
export function expectLawful(events: readonly SluiceEvent[]): void {
  expect(events.map((event) => event.sequence)).toEqual(events.map((_, index) => index + 1));
  expect(new Set(events.map((event) => event.event_id)).size).toBe(events.length);
  expectTurnsEnd(events);
  expectItemsClose(events);
  for (const event of events) {
    expect(event.synthetic).toBe(event.source === "daemon");
    const parsed = SluiceEvent.safeParse(event);
    expect(parsed.error?.issues, JSON.stringify(event).slice(0, 500)).toBeUndefined();
  }
  const times = events.map((event) => Date.parse(event.time));
  expect(times).toEqual(times.toSorted((a, b) => a - b));
}

/** Each turn has exactly one terminal event, and nothing of it comes later. */
export function expectTurnsEnd(events: readonly SluiceEvent[]): void {
  const started = events.filter((event) => event.type === "turn.started").map((event) => event.turn_id);
  const ended = events.filter((event) => event.type === "turn.ended").map((event) => event.turn_id);
  expect(ended).toEqual(started);
  for (const turn of started) {
    const ofTurn = events.filter((event) => event.turn_id === turn);
    expect(ofTurn.at(-1)?.type).toBe("turn.ended");
  }
}

/** Every open item is closed once, before its turn's end. */
export function expectItemsClose(events: readonly SluiceEvent[]): void {
  const open = new Map<string, string>();
  const seen = new Set<string>();
  const start = (id: string, what: string): void => {
    expect(seen.has(`${what} ${id}`), `${what} ${id} starts once`).toBe(false);
    seen.add(`${what} ${id}`);
    open.set(`${what} ${id}`, what);
  };
  const end = (id: string, what: string): void => {
    expect(open.delete(`${what} ${id}`), `${what} ${id} was open`).toBe(true);
  };
  // The gateway tells when a request really ended. A side call, or an answer that was broken off, may end after the turn.
  const measured = new Set<string>();
  const calls = new Set<string>();
  for (const event of events) {
    if (event.type === "item.started") start(event.data.item.item_id, "item");
    if (event.type === "item.delta") expect(open.has(`item ${event.data.item_id}`)).toBe(true);
    if (event.type === "item.completed") {
      end(event.data.item.item_id, "item");
      followCalls(event.data.item, calls);
    }
    if (event.type === "permission.requested") start(event.data.permission_id, "permission");
    if (event.type === "permission.resolved") end(event.data.permission_id, "permission");
    if (event.type === "question.requested") start(event.data.question_id, "question");
    if (event.type === "question.resolved") end(event.data.question_id, "question");
    if (event.type === "tool.requested") start(event.data.request_id, "tool");
    if (event.type === "tool.resolved") end(event.data.request_id, "tool");
    if (event.type === "model.started") {
      start(event.data.request_id, "model");
      if (event.data.offset !== undefined) measured.add(`model ${event.data.request_id}`);
    }
    if (event.type === "model.ended") end(event.data.request_id, "model");
    if (event.type === "turn.ended") {
      const ofTurn = [...open.keys()].filter((key) => !measured.has(key));
      expect(ofTurn, "open at the turn's end").toEqual([]);
      expect([...calls], "calls without a result at the turn's end").toEqual([]);
    }
  }
  expect([...open.keys()], "open at the end").toEqual([]);
}

function followCalls(item: Item, calls: Set<string>): void {
  for (const part of item.content) {
    if (part.type === "tool_call" && item.kind === "tool_call") calls.add(part.call_id);
    if (part.type === "tool_result") calls.delete(part.call_id);
  }
}

/** The text of the assistant's messages, in order. */
export function assistantTexts(events: readonly SluiceEvent[]): string[] {
  return events.flatMap((event) => {
    if (event.type !== "item.completed" || event.data.item.role !== "assistant") return [];
    return event.data.item.content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  });
}
