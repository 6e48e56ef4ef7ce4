import { describe, expect, it } from "vitest";
import type { StoredEvent } from "../../src/log/port.ts";
import { Tail } from "../../src/log/tail.ts";

describe("the tail", () => {
  const limits = { eventsPerSession: 10, lengthPerSession: 100, length: 250 };

  it("keeps the newest events of a session, by count", () => {
    const tail = new Tail(limits);
    extend(tail, "s", 1, 25, "x");
    expect(sequences(tail, "s", 15)).toEqual([16, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
    expect(sequences(tail, "s", 14)).toBeUndefined();
    expect(sequences(tail, "s", 25)).toEqual([]);
    expect(sequences(tail, "s", 26)).toBeUndefined();
    expect(tail.read("s", { after: 20, limit: 2 })?.map((event) => event.sequence)).toEqual([21, 22]);
  });

  it("keeps the newest events of a session, by size, native lines included", () => {
    const tail = new Tail(limits);
    extend(tail, "s", 1, 5, "x".repeat(20), "r".repeat(20));
    expect(sequences(tail, "s", 3)).toEqual([4, 5]);
    expect(sequences(tail, "s", 2)).toBeUndefined();
    expect(tail.length).toBeLessThanOrEqual(100);
    extend(tail, "s", 6, 1, "x".repeat(1000));
    expect(tail.length).toBe(0);
    expect(sequences(tail, "s", 6)).toEqual([]);
    expect(sequences(tail, "s", 5)).toBeUndefined();
    extend(tail, "s", 7, 1, "x");
    expect(sequences(tail, "s", 6)).toEqual([7]);
  });

  it("forgets the session that was idle longest", () => {
    const tail = new Tail(limits);
    for (const session of ["a", "b"]) extend(tail, session, 1, 1, "x".repeat(90));
    tail.read("a", { after: 0, limit: 1 });
    extend(tail, "c", 1, 1, "x".repeat(90));
    expect(sequences(tail, "b", 0)).toBeUndefined();
    expect(sequences(tail, "a", 0)).toEqual([1]);
    expect(tail.length).toBe(180);
  });

  it("begins anew where the sequence does not continue", () => {
    const tail = new Tail(limits);
    extend(tail, "s", 1, 3, "x");
    extend(tail, "s", 8, 2, "x");
    expect(sequences(tail, "s", 2)).toBeUndefined();
    expect(sequences(tail, "s", 7)).toEqual([8, 9]);
  });

  it("gives native lines only to those who ask", () => {
    const tail = new Tail(limits);
    extend(tail, "s", 1, 2, "x", "raw");
    expect(tail.read("s", { after: 0, limit: 1, raw: true })).toEqual([
      { sequence: 1, type: "item.delta", body: "x", raw: "raw" },
    ]);
    expect(tail.read("s", { after: 0, limit: 1 })).toEqual([{ sequence: 1, type: "item.delta", body: "x" }]);
  });
});

function extend(tail: Tail, session: string, first: number, count: number, body: string, raw?: string): void {
  const events = Array.from({ length: count }, (_, n): StoredEvent => ({
    sequence: first + n,
    type: "item.delta",
    body,
  }));
  const drafts = events.map((_, n) => ({
    type: "item.delta" as const,
    source: "agent" as const,
    data: { item_id: "i", delta: "" },
    ...(raw !== undefined && { raw: count > 2 ? `${raw}${n}` : raw }),
  }));
  tail.extend(session, events, drafts);
}

function sequences(tail: Tail, session: string, after: number): number[] | undefined {
  return tail.read(session, { after, limit: 100 })?.map((event) => event.sequence);
}
