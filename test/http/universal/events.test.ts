import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isPlain, SluiceEvent } from "../../../src/contract/index.ts";
import { readAll, runTurn, script } from "../../support/engine.ts";
import { type AppBench, codeOf, type EventPage, openApp, problemOf } from "../app-bench.ts";
import { SseReader } from "../sse-reader.ts";

const SESSION = "/v1/sessions/s";
let bench: AppBench;
let log: SluiceEvent[];

beforeAll(async () => {
  bench = await openApp();
  await bench.test.engine.create("s", { agent: "scripted" });
  await runTurn(
    bench.test,
    "s",
    script({ plan: [] }, { say: "one two three" }, { write: { path: "a.txt", content: "x" } }),
  );
  await runTurn(bench.test, "s", script({ think: "hm" }, { shell: "echo hi" }));
  log = await readAll(bench.test.log, "s");
});
afterAll(() => bench.close());

const page = async (query = ""): Promise<EventPage> =>
  (await (await bench.call("GET", `${SESSION}/events${query}`)).json()) as EventPage;

const sse = (query = "", headers: Record<string, string> = {}) =>
  SseReader.open(`${bench.url}${SESSION}/events/sse${query}`, headers);

describe("a page of events", () => {
  it("has by default only the types of the plain schema", async () => {
    const { events, hasMore } = await page("?limit=1000");
    expect(events).toEqual(log.filter((event) => isPlain(event.type)));
    expect(hasMore).toBe(false);
    for (const event of events) {
      const keys =
        "event_id sequence time session_id native_session_id source synthetic type data turn_id parent_id";
      for (const key of Object.keys(event)) expect(keys.split(" ")).toContain(key);
      expect(event.synthetic).toBe(event.source === "daemon");
    }
  });

  it("has the whole log with extensions, and every event fits the contract", async () => {
    const { events } = await page("?limit=1000&extensions=1");
    expect(events).toEqual(log);
    for (const event of events) expect(SluiceEvent.safeParse(event).error?.issues).toBeUndefined();
  });

  it("has the native lines on request", async () => {
    const { events } = await page("?limit=1000&include_raw=true");
    expect(events.some((event) => typeof event.raw === "object")).toBe(true);
    for (const event of events) delete event.raw;
    expect(events).toEqual(log.filter((event) => isPlain(event.type)));
  });

  it.each(["", "&extensions=true"])("continues the previous page without a gap (%s)", async (view) => {
    const all = (await page(`?limit=1000${view}`)).events;
    const seen: SluiceEvent[] = [];
    for (;;) {
      const after = seen.at(-1)?.sequence ?? 0;
      const name = seen.length % 2 ? "after" : "offset";
      const { events, hasMore } = await page(`?limit=3&${name}=${after}${view}`);
      expect(events.length).toBeLessThanOrEqual(3);
      seen.push(...events);
      expect(hasMore).toBe(seen.length < all.length);
      if (!hasMore) break;
    }
    expect(seen).toEqual(all);
  });

  it("can be filtered by type", async () => {
    const types = ["item.delta", "session.started"];
    const expected = log.filter((event) => types.includes(event.type));
    expect((await page(`?limit=1000&types=${types.join(",")}`)).events).toEqual(expected);
    expect((await page(`?limit=1000&types=${types.join("&types=")}`)).events).toEqual(expected);
    expect(await page("?types=turn.ended")).toEqual({ events: [], hasMore: false });
    expect((await page("?types=turn.ended&extensions=true")).events).toHaveLength(2);
  });

  it.each([
    ["limit=0", "invalid_request", "limit"],
    ["limit=1001", "invalid_request", "limit"],
    ["limit=many", "invalid_request", "limit"],
    ["offset=-1", "invalid_cursor", "offset"],
    ["after=1.5", "invalid_cursor", "after"],
    ["after=1&offset=2", "invalid_cursor", "same thing"],
    ["types=no.such", "invalid_request", "no.such"],
    ["include_raw=perhaps", "invalid_request", "include_raw"],
    ["extensions=2", "invalid_request", "extensions"],
  ])("refuses %s", async (query, code, word) => {
    const response = await bench.call("GET", `${SESSION}/events?${query}`);
    const problem = await problemOf(response);
    expect([problem.status, problem.type]).toEqual([400, `urn:sluice:error:${code}`]);
    expect(problem.detail).toContain(word);
  });

  it("is refused for a lost cursor and for an unknown session", async () => {
    const ahead = await bench.call("GET", `${SESSION}/events?after=100000`);
    expect([ahead.status, await codeOf(ahead)]).toEqual([410, "cursor_gone"]);
    const missing = await bench.call("GET", "/v1/sessions/none/events");
    expect([missing.status, await codeOf(missing)]).toEqual([404, "session_not_found"]);
  });
});

describe("the stream of events", () => {
  it("replays from the cursor, with the same bytes as the page", async () => {
    const head = log.at(-1)?.sequence ?? 0;
    const reader = await sse("?extensions=true&after=3");
    await reader.untilId(head);
    reader.cut();
    const text = await (
      await bench.call("GET", `${SESSION}/events?extensions=true&after=3&limit=1000`)
    ).text();
    expect(text).toBe(`{"events":[${reader.frames.map((frame) => frame.data).join(",")}],"hasMore":false}`);
  });

  it("resumes behind Last-Event-ID, which wins over the query", async () => {
    const reader = await sse("?extensions=true&offset=1", { "last-event-id": "5" });
    await reader.untilId(7);
    reader.cut();
    expect(reader.ids.slice(0, 2)).toEqual([6, 7]);
  });

  it.each([
    ["?after=x", {}, 400, "invalid_cursor"],
    ["", { "last-event-id": "evt_1" }, 400, "invalid_cursor"],
    ["?after=99999", {}, 410, "cursor_gone"],
    ["", { "last-event-id": "99999" }, 410, "cursor_gone"],
  ] as const)("is refused before it begins: %s %o", async (query, headers, status, code) => {
    const response = await bench.call("GET", `${SESSION}/events/sse${query}`, { headers });
    expect([response.status, await codeOf(response)]).toEqual([status, code]);
  });

  it("names the oldest event of a trimmed log", async () => {
    await bench.test.engine.create("t", { agent: "scripted" });
    await runTurn(bench.test, "t", script({ say: "x" }));
    await bench.test.log.trim("t", 4);
    const response = await bench.call("GET", "/v1/sessions/t/events/sse?after=2");
    expect(await problemOf(response)).toMatchObject({ status: 410, oldest: 5 });
    const reader = await SseReader.open(`${bench.url}/v1/sessions/t/events/sse?after=4&extensions=true`);
    await reader.untilId(5);
    reader.cut();
  });

  it("of an ended session replays and ends from any cursor", async () => {
    await bench.test.engine.create("e", { agent: "scripted" });
    await runTurn(bench.test, "e", script({ say: "x" }));
    await bench.test.engine.terminate("e");
    const { head } = (await bench.test.log.find("e")) ?? { head: 0 };
    for (const after of [0, 3, head - 1, head]) {
      const reader = await SseReader.open(
        `${bench.url}/v1/sessions/e/events/sse?after=${after}&extensions=1`,
      );
      await reader.finished;
      const end = reader.ids.length > 0 ? JSON.parse(reader.frames.at(-1)?.data ?? "{}").type : "nothing";
      expect(["session.ended", "nothing"]).toContain(end);
      expect(reader.ids[0] ?? after + 1).toBe(after + 1);
    }
  });
});
