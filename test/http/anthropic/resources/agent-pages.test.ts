import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, envelopeOf, openAnthropic } from "../anthropic-bench.ts";

let bench: AnthropicBench;

beforeAll(async () => {
  bench = await openAnthropic();
});

afterAll(() => bench.close());

describe("B7: pages", () => {
  let own: AnthropicBench;
  beforeAll(async () => {
    own = await openAnthropic();
    for (const name of ["a", "b", "c", "d", "e"]) await own.beta.agents.create({ name, model: "m" });
  });
  afterAll(() => own.close());

  it("are paged by the SDK, newest first, each agent once", async () => {
    const names = (await collect(own.beta.agents.list({ limit: 2 }))).map(({ name }) => name);
    expect(names).toEqual(["e", "d", "c", "b", "a"]);
  });

  it("have data and next_page, and no next_page at the end", async () => {
    const first = (await (await own.raw("GET", "/agents?limit=5")).json()) as { data: unknown[] };
    expect([Object.keys(first).sort(), first.data.length]).toEqual([["data", "next_page"], 5]);
    expect(first).toMatchObject({ next_page: null });
  });

  it("continue correctly after changes of the list", async () => {
    const first = await own.beta.agents.list({ limit: 2 });
    const late = await own.beta.agents.create({ name: "late", model: "m" });
    await own.beta.agents.archive(first.data[1]?.id ?? "");
    const second = await first.getNextPage();
    expect(second.data.map(({ name }) => name)).toEqual(["c", "b"]);
    await own.beta.agents.archive(late.id);
  });

  it.each([
    "limit=0",
    "limit=-1",
    "limit=x",
    "limit=1001",
    "page=nonsense",
    "created_at[gte]=yesterday",
    "include_archived=maybe",
  ])("%s gets 400", async (query) => {
    const response = await own.raw("GET", `/agents?${query}`);
    expect(response.status).toBe(400);
    expect((await envelopeOf(response)).error.type).toBe("invalid_request_error");
  });

  it("refuse a cursor of another list", async () => {
    await own.beta.vaults.create({ display_name: "1" });
    await own.beta.vaults.create({ display_name: "2" });
    const { next_page } = await own.beta.vaults.list({ limit: 1 });
    expect((await own.raw("GET", `/vaults?limit=1&page=${next_page}`)).status).toBe(200);
    expect((await own.raw("GET", `/agents?limit=1&page=${next_page}`)).status).toBe(400);
  });

  it("are filtered by time", async () => {
    const all = await collect(own.beta.agents.list({ include_archived: true }));
    const third = all.find(({ name }) => name === "c");
    const at = third?.created_at ?? "";
    const since = await collect(own.beta.agents.list({ "created_at[gte]": at, include_archived: true }));
    const until = await collect(own.beta.agents.list({ "created_at[lte]": at, include_archived: true }));
    expect(since.every((agent) => agent.created_at >= at) && since.some(({ id }) => id === third?.id)).toBe(
      true,
    );
    expect(until.every((agent) => agent.created_at <= at) && until.some(({ id }) => id === third?.id)).toBe(
      true,
    );
    expect(since.length + until.length).toBeGreaterThan(all.length);
  });
});
