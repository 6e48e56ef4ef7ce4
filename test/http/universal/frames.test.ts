import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/index.ts";
import { FORMAT_NAMES, type FramePage, type SluiceEvent } from "../../../src/contract/index.ts";
import { createMemoryCatalog } from "../../../src/catalog/index.ts";
import { toWebhookTypes } from "../../../src/dialects/anthropic/webhook.ts";
import { readAll, runTurn, script, SCRIPTED } from "../../support/engine.ts";
import { codeOf, openApp, type AppBench, type EventPage } from "../app-bench.ts";

describe("the frames of a session", () => {
  let bench: AppBench;
  let head: number;
  beforeAll(async () => {
    bench = await openApp({ catalog: createMemoryCatalog() });
    const { engine } = bench.test;
    await engine.create("s", SCRIPTED);
    for (let turn = 0; turn < 4; turn++)
      await runTurn(bench.test, "s", script({ think: "hm" }, { say: "one two three" }, { shell: "echo hi" }));
    await engine.terminate("s");
    head = (await readAll(bench.test.log, "s")).length;
  });
  afterAll(() => bench.close());

  const page = async (query: string): Promise<FramePage> =>
    (await (await bench.call("GET", `/v1/sessions/s/events?${query}`)).json()) as FramePage;

  it.each(FORMAT_NAMES)("as %s are the same in pages of any size, forwards and backwards", async (as) => {
    const whole = await page(`as=${as}&limit=1000`);
    expect(whole.hasMore).toBe(false);
    expect(whole.events.length).toBeGreaterThan(0);
    for (const limit of [1, 7, 50]) {
      const forwards: FramePage["events"] = [];
      for (let after = "0"; ;) {
        const { events, hasMore, next } = await page(`as=${as}&limit=${limit}&after=${after}`);
        forwards.push(...events);
        if (!hasMore) break;
        after = next ?? "";
      }
      expect(forwards).toEqual(whole.events);
      if (limit === 1) continue;
      const backwards: FramePage["events"] = [];
      for (let before = "999999999"; ;) {
        const { events, hasMore, previous } = await page(`as=${as}&limit=${limit}&before=${before}`);
        backwards.unshift(...events);
        if (!hasMore) break;
        before = previous ?? "";
      }
      expect(backwards).toEqual(whole.events);
    }
  });

  it.each(FORMAT_NAMES)("as %s are those of the stream, with their sequences", async (as) => {
    const client = createClient({ url: bench.url });
    const streamed: { sequence: number; data: string }[] = [];
    for await (const { sequence, data } of client.frames.subscribe("s", as))
      streamed.push({ sequence, data });
    const whole = await client.frames.page("s", as, { limit: 1000 });
    const paged = whole.events.flatMap(({ sequence, frames }) =>
      frames.map((frame) => ({ sequence, data: JSON.stringify(frame) })),
    );
    expect(streamed).toEqual(paged);
  });

  it("as ag-ui count reasoning once: it is a part of the output", async () => {
    const { engine } = bench.test;
    await engine.create("thinking", SCRIPTED);
    const usage = { input_tokens: 10, output_tokens: 44, cache_read_tokens: 5, reasoning_tokens: 9 };
    await runTurn(bench.test, "thinking", script({ say: "hm" }, { usage }));
    const client = createClient({ url: bench.url });
    const { events } = await client.frames.page("thinking", "ag-ui", { limit: 1000 });
    const finished = events
      .flatMap(({ frames }) => frames as { type: string; usage?: unknown }[])
      .find(({ type }) => type === "RUN_FINISHED");
    expect(finished?.usage).toMatchObject([
      { inputTokens: 15, outputTokens: 44, totalTokens: 59, reasoningTokens: 9, cachedInputTokens: 5 },
    ]);
  });

  it("as anthropic tell that a lasting session is idle after its agent has died", async () => {
    const { engine } = bench.test;
    await engine.create("lasting", { ...SCRIPTED, lasting: true });
    await runTurn(bench.test, "lasting", script({ say: "a" }, { exit: 9 }));
    const client = createClient({ url: bench.url });
    const { events } = await client.frames.page("lasting", "anthropic", { limit: 1000 });
    const told = events.flatMap(({ frames }) => frames as { type: string }[]).map(({ type }) => type);
    expect(told.slice(-2)).toEqual(["session.error", "session.status_idle"]);
    const ended = (await readAll(bench.test.log, "lasting")).find(({ type }) => type === "turn.ended");
    expect(toWebhookTypes(ended as SluiceEvent)).toEqual(["session.status_idled"]);
  });

  it("as universal are the events", async () => {
    const { events } = await page("as=universal&extensions=true&limit=1000");
    expect(events.map(({ frames }) => frames[0])).toEqual(await readAll(bench.test.log, "s"));
  });

  it("as anthropic are those of the stream of Managed Agents", async () => {
    const { events } = await page("as=anthropic&limit=1000");
    const [first, ...frames] = events.flatMap((event) => event.frames as { id: string }[]);
    // That stream begins with new events, unless its reader names the last one that it saw.
    const response = await bench.call("GET", "/anthropic/v1/sessions/s/events/stream", {
      headers: { "anthropic-beta": "managed-agents-2026-04-01", "last-event-id": first?.id ?? "" },
    });
    const lines = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) => data);
    expect(lines.length).toBeGreaterThan(10);
    expect(lines).toEqual(frames.map((frame) => JSON.stringify(frame)));
  });

  it("as ag-ui are those of the stream of a run", async () => {
    const turn = (await readAll(bench.test.log, "s")).find(({ type }) => type === "turn.started")?.turn_id;
    const own = await bench.call("GET", `/ag-ui/scripted?threadId=s&runId=${turn}`);
    const lines = [...(await own.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) => data);
    expect(own.status).toBe(200);
    const { events } = await page("as=ag-ui&limit=1000");
    const frames = events.flatMap((event) => event.frames.map((frame) => JSON.stringify(frame)));
    expect(lines.length).toBeGreaterThan(3);
    expect(frames.slice(0, lines.length)).toEqual(lines);
  });

  it("as ndjson are those of the stream of a turn", async () => {
    const { events } = await page("as=ndjson&limit=1000");
    expect(events.at(-1)?.frames).toMatchObject([{ type: "result", message: "one two three" }]);
  });

  it.each(["__proto__", "constructor", "", "Universal"])("refuse the format %j", async (as) => {
    const response = await bench.call("GET", `/v1/sessions/s/events?as=${as}`);
    expect(await codeOf(response)).toBe("invalid_request");
    expect((await bench.call("GET", `/v1/sessions/s/events/sse?as=${as}`)).status).toBe(400);
  });

  describe("read back", () => {
    const events = async (query: string): Promise<EventPage & { previous?: string }> =>
      (await (await bench.call("GET", `/v1/sessions/s/events?${query}`)).json()) as EventPage;

    it.each(["extensions=true", "", "extensions=true&types=turn.started,turn.ended"])(
      "gives the same events as read on (%s)",
      async (view) => {
        const all = (await events(`${view}&limit=1000`)).events;
        for (const limit of [1, 3, 60]) {
          const found: SluiceEvent[] = [];
          for (let before = String(2 ** 50); ;) {
            const page = await events(`${view}&limit=${limit}&before=${before}`);
            found.unshift(...page.events);
            if (!page.hasMore) break;
            before = page.previous ?? "";
          }
          expect(found).toEqual(all);
        }
      },
    );

    it("has nothing before the first event", async () => {
      expect(await events("before=1")).toEqual({ events: [], hasMore: false });
    });

    it.each(["before=0", "before=-1", "before=1.5", "before=x", `before=${2n ** 60n}`, "before=5&after=3"])(
      "refuses %s",
      async (query) => {
        const response = await bench.call("GET", `/v1/sessions/s/events?${query}`);
        expect(await codeOf(response)).toBe("invalid_cursor");
      },
    );
  });

  describe("at a moment", () => {
    it.each(["-1", "1.5", "x", String(2n ** 60n), "__proto__"])("refuses %s", async (at) => {
      expect(await codeOf(await bench.call("GET", `/v1/sessions/s?at=${at}`))).toBe("invalid_request");
    });

    it("refuses a moment beyond the head", async () => {
      expect(await codeOf(await bench.call("GET", `/v1/sessions/s?at=${head + 1}`))).toBe("cursor_gone");
    });

    it("gives the session as it was", async () => {
      const client = createClient({ url: bench.url });
      expect(await client.sessions.at("s", 0)).toMatchObject({ status: "idle", eventCount: 0, turns: 0 });
      const { turns } = await client.sessions.outline("s");
      const { first = 0 } = turns[2] ?? {};
      expect(await client.sessions.at("s", first)).toMatchObject({ status: "running", turns: 3, at: first });
      expect(await client.sessions.at("s", head)).toMatchObject({ status: "ended", turns: 4 });
    });
  });
});
