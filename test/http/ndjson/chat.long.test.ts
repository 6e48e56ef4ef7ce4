import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Sse } from "../../dialects/ndjson/streams.ts";
import { openBrowser, requireBrowser, type TestBrowser } from "../../support/browser.ts";
import { processesWith, readAll, waitFor } from "../../support/engine.ts";
import { codeOf } from "../app-bench.ts";
import { SseReader } from "../sse-reader.ts";
import { type NdjsonBench, openNdjson } from "./ndjson-bench.ts";

const TOKEN = "correct-horse";

let bench: NdjsonBench;
beforeAll(async () => {
  bench = await openNdjson({ token: TOKEN });
});
afterAll(() => bench.close());

const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(bench.url + path, { headers });

const path = (query: string): string => `/ndjson/chat/stream?${query}`;

/** The frames of a stream, comments left out. */
function framesOf(text: string): Sse[] {
  return text
    .split("\n\n")
    .map((block) => /^event: (\w+)\nid: ([\d.]+)\ndata: (.*)$/.exec(block))
    .filter((match) => match !== null)
    .map(([, event = "", id = "", data = ""]) => ({ event, id, data: JSON.parse(data) }));
}

describe("a turn for browsers", () => {
  it("is started by one call and read by another, with the address alone", async () => {
    const { conversation, turn, stream } = await bench.chat("c-1", { shell: "echo hi" }, { say: "done" });
    expect(conversation).toBe("c-1");
    expect(stream).toMatch(/^\/ndjson\/chat\/stream\?conversation=c-1&turn=turn_/);
    const response = await get(stream);
    expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
    const frames = framesOf(await response.text());
    expect(frames.map(({ event }) => event)).toEqual(["step", "step", "result", "done"]);
    expect(frames[2]?.data).toMatchObject({ type: "result", message: "done" });
    await bench.ended(conversation, turn);
  });

  it("is read again from its start, except by a reader at its end (ND-15)", async () => {
    const { stream } = await bench.chat("c-2", { say: "over" });
    const first = framesOf(await (await get(stream)).text());
    expect(framesOf(await (await get(stream)).text())).toEqual(first);
    const last = first.at(-1)?.id ?? "";
    const again = await get(stream, { "last-event-id": last });
    expect([again.status, await again.text()]).toEqual([204, ""]);
    const turns = (await readAll(bench.test.log, "c-2")).filter(({ type }) => type === "turn.started");
    expect(turns).toHaveLength(1);
  });

  it("resumes behind every id, also between the result and done", async () => {
    const { stream } = await bench.chat("c-3", { shell: "true" }, { shell: "false" }, { say: "over" });
    const all = framesOf(await (await get(stream)).text());
    expect(all).toHaveLength(6);
    for (const [index, { id }] of all.slice(0, -1).entries()) {
      const rest = framesOf(await (await get(stream, { "last-event-id": id })).text());
      expect(rest).toEqual(all.slice(index + 1));
    }
  });

  it("closes with done after an error", async () => {
    const { stream } = await bench.chat("c-4", { fail: { kind: "terminal" } });
    const frames = framesOf(await (await get(stream)).text());
    expect(frames.map(({ event }) => event)).toEqual(["error", "done"]);
  });

  it("can be read if another dialect started it", async () => {
    const sent = await bench.test.engine.create("c-5", { agent: "scripted" });
    const { turnId } = await bench.test.engine.send(sent.sessionId, {
      content: [{ type: "text", text: '#script [{"say":"from elsewhere"}]' }],
      via: "universal",
    });
    const response = await get(path(`conversation=c-5&turn=${turnId}`), { authorization: `Bearer ${TOKEN}` });
    expect(framesOf(await response.text())[0]?.data).toMatchObject({ message: "from elsewhere" });
  });

  it("needs its ticket or the token", async () => {
    const { stream } = await bench.chat("c-6", { say: "x" });
    const { stream: other } = await bench.chat("c-7", { say: "y" });
    const ticketOf = (path: string): string => new URL(path, bench.url).searchParams.get("ticket") ?? "";
    const bare = stream.replace(/&ticket=.*/, "");
    const statusOf = async (path: string): Promise<number> => {
      const response = await get(path);
      await response.body?.cancel();
      return response.status;
    };
    expect(await statusOf(bare)).toBe(401);
    expect(await statusOf(`${bare}&ticket=${ticketOf(other)}`)).toBe(401);
    expect(await statusOf(`${bare}&ticket=zzzzzzzzzz.${ticketOf(stream).split(".")[1]}`)).toBe(401);
    expect(await statusOf(stream)).toBe(200);
    expect(await statusOf(`/ndjson/conversations/c-6?ticket=${ticketOf(stream)}`)).toBe(401);
    await Promise.all([bench.test.engine.info("c-6"), bench.test.engine.info("c-7")]);
  });

  it("reports a wrong address", async () => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const { turn } = await bench.chat("c-8", { say: "x" });
    expect(await codeOf(await get(path("conversation=nope&turn=t"), headers))).toBe("session_not_found");
    expect(await codeOf(await get(path("conversation=c-8&turn=turn_nope"), headers))).toBe("not_found");
    expect(await codeOf(await get(path("conversation=c-8"), headers))).toBe("invalid_request");
    const bad = { ...headers, "last-event-id": "x" };
    expect(await codeOf(await get(path(`conversation=c-8&turn=${turn}`), bad))).toBe("invalid_cursor");
    const far = { ...headers, "last-event-id": "9999" };
    expect(await codeOf(await get(path(`conversation=c-8&turn=${turn}`), far))).toBe("cursor_gone");
    await bench.ended("c-8", turn);
  });

  it("ends after its last reader disconnected for good (ND-24)", async () => {
    const { turn, stream } = await bench.chat("c-9", { shell: "sleep 7474" });
    const [one, two] = [await SseReader.open(bench.url + stream), await SseReader.open(bench.url + stream)];
    await one.until((text) => text.includes('"running"'));
    one.cut();
    two.cut();
    const back = await SseReader.open(bench.url + stream);
    await back.until((text) => text.includes('"running"'));
    expect((await bench.test.engine.info("c-9")).turnId).toBe(turn);
    back.cut();
    const ended = await waitFor(bench.test.log, "c-9", "turn.ended");
    expect(ended.data.status).toBe("interrupted");
    await waitFor(bench.test.log, "c-9", "process.ended", { after: ended.sequence });
    expect(await processesWith("sleep 7474")).toEqual([]);
  });

  it("continues without readers if it was dispatched so", async () => {
    const response = await bench.post("/chat", {
      conversation: "c-10",
      prompt: '#script [{"shell":"sleep 3.5"},{"say":"by myself"}]',
      cancelOnDisconnect: false,
    });
    const { stream } = (await response.json()) as { stream: string };
    const reader = await SseReader.open(bench.url + stream);
    await reader.until((text) => text.includes('"running"'));
    reader.cut();
    const ended = await waitFor(bench.test.log, "c-10", "turn.ended");
    expect(ended.data.status).toBe("completed");
  });
});

describe("a real browser", () => {
  const { path: program, reason } = requireBrowser();
  let browser: TestBrowser;
  beforeAll(async () => {
    if (program !== undefined) browser = await openBrowser(program);
  });
  afterAll(async () => browser?.close());

  it("reads a turn to its end across a dropped connection, each event once", async ({ skip }) => {
    if (program === undefined) return skip(reason);
    const steps = Array.from({ length: 6 }, (_, index) => [
      { shell: `echo ${index}` },
      { sleep: 500 },
    ]).flat();
    const { stream, turn } = await bench.chat("b-1", ...steps, { say: "the end" });
    const page = await browser.page();
    const statuses: number[] = [];
    page.on("response", (response) => {
      if (response.url().includes("/chat/stream")) statuses.push(response.status());
    });
    await page.goto(`${bench.url}/healthz`);
    await page.evaluate(follow, stream);
    await page.waitForFunction(() => window.seen.filter(({ event }) => event === "step").length >= 3);
    // Every open stream is cut, as by a network that is gone for a moment.
    bench.app.streams.cutAll();
    // The browser reconnects once more, gets a 204 and stops.
    await page.waitForFunction(() => window.source.readyState === EventSource.CLOSED);
    const seen = await page.evaluate(() => window.seen);
    expect(seen.map(({ event }) => event)).toEqual([...Array<string>(12).fill("step"), "result", "done"]);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(14);
    expect(statuses).toEqual([200, 200, 204]);
    const ends = (await readAll(bench.test.log, "b-1")).filter((event) => event.type === "turn.ended");
    expect(ends.map(({ data }) => [data.turn_id, data.status])).toEqual([[turn, "completed"]]);
    await page.close();
  });

  it("ends the run by closing its EventSource (ND-24)", async ({ skip }) => {
    if (program === undefined) return skip(reason);
    const { stream } = await bench.chat("b-2", { shell: "sleep 7575" }, { say: "never" });
    const page = await browser.page();
    await page.goto(`${bench.url}/healthz`);
    await page.evaluate(follow, stream);
    await page.waitForFunction(() => window.seen.length === 1);
    await page.evaluate(() => window.source.close());
    const ended = await waitFor(bench.test.log, "b-2", "turn.ended");
    expect(ended.data.status).toBe("interrupted");
    await waitFor(bench.test.log, "b-2", "process.ended", { after: ended.sequence });
    expect(await processesWith("sleep 7575")).toEqual([]);
    await page.close();
  });
});

declare global {
  interface Window {
    source: EventSource;
    seen: { event: string; id: string; data: unknown }[];
  }
}

/** Runs in the page. */
function follow(stream: string): void {
  window.seen = [];
  window.source = new EventSource(stream);
  for (const event of ["step", "result", "error", "done"]) {
    window.source.addEventListener(event, (message) => {
      // A lost connection is an event called "error" too, without data.
      if (!("data" in message)) return;
      const { data, lastEventId: id } = message as MessageEvent<string>;
      window.seen.push({ event, id, data: JSON.parse(data) });
    });
  }
}
