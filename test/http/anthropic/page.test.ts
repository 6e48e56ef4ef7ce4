import { describe, expect, it } from "vitest";
import { type Order, readPage, type Stretch } from "../../../src/http/anthropic/page.ts";

const NUMBERS = [1, 2, 3, 4, 5, 6, 7];

async function read({ order, after, limit }: Stretch): Promise<number[]> {
  const sorted = order === "asc" ? NUMBERS : NUMBERS.toReversed();
  const behind = sorted.filter((n) => after === undefined || (order === "asc" ? n > after : n < after));
  return behind.slice(0, limit);
}

function pageOf(order: Order, page?: string | null) {
  return readPage({ list: "n", order, limit: 3, page: page ?? undefined }, read, (n) => n);
}

describe.each([
  ["asc" as const, [[1, 2, 3], [4, 5, 6], [7]]],
  ["desc" as const, [[7, 6, 5], [4, 3, 2], [1]]],
])("B7: pages in order %s", (order, pages) => {
  it("show the same items in both directions", async () => {
    const first = await pageOf(order);
    const second = await pageOf(order, first.next_page);
    const third = await pageOf(order, second.next_page);
    expect([first.items, second.items, third.items]).toEqual(pages);
    expect([first.prev_page, third.next_page]).toEqual([null, null]);
    const back = await pageOf(order, third.prev_page);
    expect(back.items).toEqual(pages[1]);
    expect((await pageOf(order, back.next_page)).items).toEqual(pages[2]);
    const start = await pageOf(order, back.prev_page);
    expect([start.items, start.prev_page]).toEqual([pages[0], null]);
  });

  it("refuse a cursor of the other order", async () => {
    const { next_page } = await pageOf(order);
    await expect(pageOf(order === "asc" ? "desc" : "asc", next_page)).rejects.toThrow(`order=${order}`);
  });
});
