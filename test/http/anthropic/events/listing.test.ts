import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import { type Event, history, idsOf, makeSession, message, text, turn, watch } from "../session-bench.ts";

let bench: AnthropicBench;
let id: string;
let all: Event[];

beforeAll(async () => {
  bench = await openAnthropic();
  ({ id } = await makeSession(bench));
  const told: Event[] = [];
  for (const word of ["a", "b", "c"])
    told.push(...(await turn(bench, id, { think: word }, { shell: `echo ${word}` }, { say: word })));
  all = told;
}, 60_000);
afterAll(() => bench.close());

const list = (query: object) => collect(bench.beta.sessions.events.list(id, query)) as Promise<Event[]>;
const raw = async (query: string): Promise<{ status: number; ids: string[] }> => {
  const answer = await bench.raw("GET", `/sessions/${id}/events?${query}`);
  const body = (await answer.json()) as { data?: { id: string }[] };
  return { status: answer.status, ids: (body.data ?? []).map((event) => event.id) };
};

describe("E1, E2: the list", () => {
  it("is complete and ascending, or exactly the reverse", async () => {
    expect(await history(bench, id)).toEqual(all);
    expect(await list({ order: "desc" })).toEqual(all.toReversed());
  });

  it("is the same in pages of any size, in both orders", async () => {
    for (const limit of [1, 2, 3, 7, 100]) {
      expect(await list({ limit })).toEqual(all);
      expect(await list({ limit, order: "desc" })).toEqual(all.toReversed());
    }
    const { next_page } = await bench.beta.sessions.events.list(id, { limit: 2 });
    const other = bench.beta.sessions.events.list(id, { limit: 2, order: "desc", page: next_page ?? "" });
    await expect(other).rejects.toMatchObject({ status: 400 });
  });
});

describe("E3, E4: types", () => {
  it("filter in every notation", async () => {
    const types = ["agent.message", "session.status_idle"] as const;
    const expected = all.filter(({ type }) => types.includes(type as never));
    expect(await list({ types: [...types], order: "asc", limit: 100 })).toEqual(expected);
    expect(await list({ types: [...types], limit: 1 })).toEqual(expected);
    expect(await list({ types: [...types], limit: 1, order: "desc" })).toEqual(expected.toReversed());
    for (const query of [
      "types[]=agent.message&types[]=session.status_idle",
      "types=agent.message&types=session.status_idle",
      "types=agent.message,session.status_idle",
    ])
      expect((await raw(query)).ids).toEqual(idsOf(expected));
    expect(await list({ types: ["session.thread_created", "session.usage"] })).toEqual([]);
    expect((await raw("types[]=no.such")).status).toBe(400);
  });
});

describe("E5: created_at", () => {
  it("compares with processed_at, to the millisecond", async () => {
    const at = (all[10] as { processed_at: string }).processed_at;
    const times = all.map((event) => Date.parse((event as { processed_at: string }).processed_at));
    const time = Date.parse(at);
    const expected = {
      gt: all.filter((_, index) => (times[index] ?? 0) > time),
      gte: all.filter((_, index) => (times[index] ?? 0) >= time),
      lt: all.filter((_, index) => (times[index] ?? 0) < time),
      lte: all.filter((_, index) => (times[index] ?? 0) <= time),
    };
    for (const [bound, events] of Object.entries(expected)) {
      expect(events).not.toEqual([]);
      const query = { [`created_at[${bound}]`]: at };
      expect(await list(query), bound).toEqual(events);
      expect(await list({ ...query, limit: 2 }), bound).toEqual(events);
      expect(await list({ ...query, limit: 2, order: "desc" }), bound).toEqual(events.toReversed());
    }
    const offset = `${new Date(time + 3_600_000).toISOString().slice(0, -1)}+01:00`;
    const { ids } = await raw(`created_at[gte]=${encodeURIComponent(offset)}`);
    expect(ids).toEqual(idsOf(expected.gte));
    expect((await raw("created_at[gt]=yesterday")).status).toBe(400);
  });
});

describe("E7: limit", () => {
  it("is between one and a thousand", async () => {
    expect(await list({ limit: 1000 })).toEqual(all);
    for (const limit of ["0", "-1", "x"]) expect((await raw(`limit=${limit}`)).status, limit).toBe(400);
    const { requests } = await failureOf(bench, () => bench.beta.sessions.events.list(id, { limit: 0 }));
    expect(requests).toBe(1);
  });
});

describe("E9: previews", () => {
  it("are in no list", async () => {
    const stream = await bench.beta.sessions.events.stream(id, { event_deltas: ["agent.message"] });
    const events = await watch(bench, id, () =>
      bench.beta.sessions.events.send(id, { events: [message(text({ say: "one two three" }))] }),
    );
    const previews: string[] = [];
    for await (const event of stream) {
      if (event.type.startsWith("event_")) previews.push(event.type);
      if (event.type === "session.status_idle") break;
    }
    expect(previews.length).toBeGreaterThan(1);
    expect(await history(bench, id)).toEqual([...all, ...events]);
  });
});
