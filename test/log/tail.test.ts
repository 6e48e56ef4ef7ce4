import { describe, expect, it } from "vitest";
import { toSegments } from "../../src/log/segment.ts";
import { Tail } from "../../src/log/tail.ts";

describe("the tail", () => {
  const limits = { eventsPerSession: 10, lengthPerSession: 200, length: 500 };

  it("keeps the newest events of a session, by count", () => {
    const tail = new Tail({ ...limits, lengthPerSession: 1_000, length: 1_000 });
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
    expect(tail.length).toBeLessThanOrEqual(200);
    extend(tail, "s", 6, 1, "x".repeat(1000));
    expect(tail.length).toBe(0);
    expect(sequences(tail, "s", 6)).toEqual([]);
    expect(sequences(tail, "s", 5)).toBeUndefined();
    extend(tail, "s", 7, 1, "x");
    expect(sequences(tail, "s", 6)).toEqual([7]);
  });

  it("reads from within segments, and puts big texts back", () => {
    const tail = new Tail({
      ...limits,
      eventsPerSession: 100,
      lengthPerSession: 1_000_000,
      length: 1_000_000,
    });
    const big = "b".repeat(40_000);
    const drafts = ["a", big, "c", "d"].map((delta) => ({
      type: "item.delta" as const,
      source: "agent" as const,
      data: { item_id: "i", delta },
    }));
    const texts = drafts.map(({ data }, index) => bodyOf(index + 1, `"data":${JSON.stringify(data)}}`));
    tail.extend("s", toSegments(drafts, texts, 1));
    expect(tail.read("s", { after: 1, limit: 2 })?.map((event) => event.body)).toEqual(texts.slice(1, 3));
    expect(sequences(tail, "s", 3)).toEqual([4]);
  });

  it("forgets the session that was idle longest", () => {
    const tail = new Tail(limits);
    for (const session of ["a", "b"]) extend(tail, session, 1, 1, "x".repeat(156));
    tail.read("a", { after: 0, limit: 1 });
    extend(tail, "c", 1, 1, "x".repeat(156));
    expect(sequences(tail, "b", 0)).toBeUndefined();
    expect(sequences(tail, "a", 0)).toEqual([1]);
    expect(tail.length).toBe(380);
  });

  it("begins anew where the sequence does not continue", () => {
    const tail = new Tail(limits);
    extend(tail, "s", 1, 3, "x");
    extend(tail, "s", 8, 2, "x");
    expect(sequences(tail, "s", 2)).toBeUndefined();
    expect(sequences(tail, "s", 7)).toEqual([8, 9]);
  });

  it("gives native lines only on request", () => {
    const tail = new Tail(limits);
    extend(tail, "s", 1, 2, "x", "raw");
    expect(tail.read("s", { after: 0, limit: 1, raw: true })).toEqual([
      { sequence: 1, type: "item.delta", body: bodyOf(1, "x"), raw: "raw" },
    ]);
    expect(tail.read("s", { after: 0, limit: 1 })).toEqual([
      { sequence: 1, type: "item.delta", body: bodyOf(1, "x") },
    ]);
  });
});

/** One segment per event, as appends one by one make them. */
function extend(tail: Tail, session: string, first: number, count: number, text: string, raw?: string): void {
  for (let sequence = first; sequence < first + count; sequence++) {
    const bodies = bodyOf(sequence, text);
    tail.extend(session, [{ first: sequence, last: sequence, bodies, raws: raw ?? null, blobs: [] }]);
  }
}

function bodyOf(sequence: number, text: string): string {
  return `{"sequence":${sequence},"type":"item.delta",${text}`;
}

function sequences(tail: Tail, session: string, after: number): number[] | undefined {
  return tail.read(session, { after, limit: 100 })?.map((event) => event.sequence);
}
