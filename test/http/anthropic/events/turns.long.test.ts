import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, openAnthropic } from "../anthropic-bench.ts";
import {
  allowing,
  awaitedIds,
  expectListed,
  history,
  isEnd,
  isHalt,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  turn,
  typesOf,
  watch,
  wordsOf,
} from "../session-bench.ts";
import { ASKING } from "../toolsets.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

describe("G1: a plain turn", () => {
  it("runs, requests its model, answers and becomes idle", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { say: "hello there" });
    expect(typesOf(events)).toEqual([
      "user.message",
      "session.status_running",
      "span.model_request_start",
      "agent.message",
      "span.model_request_end",
      "session.status_idle",
    ]);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" }, stop_details: null });
    expect(wordsOf(events)).toEqual(["hello there"]);
    expect((await bench.beta.sessions.retrieve(id)).status).toBe("idle");
    await expectListed(bench, id, events);
  });
});

describe("G2: a thought", () => {
  it("appears as agent.thinking", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { think: "hm" }, { say: "ok" });
    expect(typesOf(events).slice(3, 5)).toEqual(["agent.thinking", "agent.message"]);
    await expectListed(bench, id, events);
  });
});

describe("G12: an interrupt", () => {
  it("stops the run without a message, and the next message works", async () => {
    const { id } = await makeSession(bench);
    await watch(
      bench,
      id,
      () => bench.send(id, message(text({ sleep: 60_000 }, { say: "never" }))),
      isRunning,
    );
    const events = await watch(bench, id, () => bench.send(id, { type: "user.interrupt" }));
    expect(typesOf(events)[0]).toBe("user.interrupt");
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(wordsOf(await turn(bench, id, { say: "again" }))).toEqual(["again"]);
    const all = await history(bench, id);
    expect(wordsOf(all)).toEqual(["again"]);
  });

  it("and a message behind it in one request: stop, then start", async () => {
    const { id } = await makeSession(bench);
    await watch(bench, id, () => bench.send(id, message(text({ sleep: 60_000 }))), isRunning);
    let idles = 0;
    const events = await watch(
      bench,
      id,
      () => bench.send(id, { type: "user.interrupt" }, message(text({ say: "next" }))),
      (event) => isHalt(event) && ++idles === 2,
    );
    expect(wordsOf(events)).toEqual(["next"]);
    await expectListed(bench, id, events);
  });

  it("ends a waiting turn, and its requests take no more answers", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const first = await turn(bench, id, { shell: "true" }, { say: "never" });
    const events = await watch(bench, id, () => bench.send(id, { type: "user.interrupt" }), isEnd);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(typesOf(events)).not.toContain("user.tool_confirmation");
    const refused = bench.send(id, allowing(awaitedIds(first)[0]));
    await expect(refused).rejects.toMatchObject({
      status: expect.toSatisfy((status) => [400, 409].includes(status)),
    });
    expect(wordsOf(await turn(bench, id, { say: "again" }))).toEqual(["again"]);
    await expectListed(bench, id, [...first, ...events]);
  });

  it("of an idle session is accepted without an effect", async () => {
    const { id } = await makeSession(bench);
    const { data } = await bench.send(id, { type: "user.interrupt" });
    expect(data).toMatchObject([{ type: "user.interrupt", id: expect.stringMatching(/^sevt_/) }]);
    expect(await history(bench, id)).toEqual(data);
  });
});

describe("G15: a message while an answer is awaited", () => {
  it("waits until the actions are resolved", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const first = await turn(bench, id, { shell: "true" }, { say: "one" });
    const { data } = await bench.send(id, message(text({ say: "two" })));
    expect(data).toMatchObject([{ type: "user.message", processed_at: null }]);
    expect((await history(bench, id)).at(-1)).toEqual(data?.[0]);
    const [tool_use_id] = awaitedIds(first);
    let ends = 0;
    const allow = allowing(tool_use_id);
    const events = await watch(
      bench,
      id,
      () => bench.send(id, allow),
      (event) => isEnd(event) && ++ends === 2,
    );
    expect(wordsOf(events)).toEqual(["one", "two"]);
    await expectListed(bench, id, events);
  });
});

describe("G16: compaction and refusal", () => {
  it("have their own events", async () => {
    const { id } = await makeSession(bench);
    const compacted = await turn(bench, id, { compact: true }, { say: "shorter" });
    expect(typesOf(compacted)).toContain("agent.thread_context_compacted");
    const refused = await turn(bench, id, { refuse: "too dangerous" });
    expect(refused.at(-1)).toMatchObject({
      type: "session.status_idle",
      stop_reason: { type: "refusal" },
      stop_details: { type: "refusal", category: null, explanation: "too dangerous" },
    });
  });
});

describe("G17: model requests", () => {
  it("end with their usage, which sums up to the session's", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(
      bench,
      id,
      { usage: { input_tokens: 10, output_tokens: 5, cache_read_tokens: 3 } },
      { shell: "true" },
      { usage: { input_tokens: 20, output_tokens: 6 } },
      { say: "ok" },
    );
    const starts = ofType(events, "span.model_request_start");
    const ends = ofType(events, "span.model_request_end");
    expect(ends.map(({ model_request_start_id: start }) => start)).toEqual(starts.map(({ id }) => id));
    const sum = (key: "input_tokens" | "output_tokens" | "cache_read_input_tokens"): number =>
      ends.reduce((total, { model_usage }) => total + model_usage[key], 0);
    const { usage } = await bench.beta.sessions.retrieve(id);
    expect(usage).toMatchObject({
      input_tokens: sum("input_tokens"),
      output_tokens: sum("output_tokens"),
      cache_read_input_tokens: sum("cache_read_input_tokens"),
    });
    expect([usage.input_tokens, usage.output_tokens]).toEqual([30, 11]);
  });
});

describe("G18: the primary thread", () => {
  it("is the only thread and has all events of the session", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { say: "hi" });
    const [thread, ...others] = await collect(bench.beta.sessions.threads.list(id));
    expect(others).toEqual([]);
    expect(thread).toMatchObject({
      type: "session_thread",
      session_id: id,
      parent_thread_id: null,
      status: "idle",
    });
    const threadId = thread?.id ?? "";
    expect(await bench.beta.sessions.threads.retrieve(threadId, { session_id: id })).toEqual(thread);
    const listed = await collect(bench.beta.sessions.threads.events.list(threadId, { session_id: id }));
    expect(listed).toEqual(events);
    const stream = await bench.beta.sessions.threads.events.stream(threadId, { session_id: id });
    await bench.send(id, message(text({ say: "again" })));
    const streamed: string[] = [];
    for await (const event of stream) {
      streamed.push(event.type);
      if (event.type === "session.status_idle") break;
    }
    expect(streamed).toContain("agent.message");
    expect((await history(bench, id)).filter(({ type }) => type.startsWith("session.thread"))).toEqual([]);
    const missing = bench.beta.sessions.threads.retrieve("sthr_x", { session_id: id });
    await expect(missing).rejects.toMatchObject({ status: 404 });
  });
});

describe("a session from another dialect", () => {
  it("is the same session here, with its own id", async () => {
    await bench.test.engine.create("from-elsewhere", { agent: "scripted" });
    const id = "sesn_from-elsewhere";
    expect(await bench.beta.sessions.retrieve(id)).toMatchObject({ id, type: "session", status: "idle" });
    const events = await watch(bench, id, () =>
      bench.test.engine.send("from-elsewhere", {
        via: "test",
        content: [{ type: "text", text: text({ say: "hi" }) }],
      }),
    );
    expect(typesOf(events)).toEqual([
      "session.status_running",
      "user.message",
      "span.model_request_start",
      "agent.message",
      "span.model_request_end",
      "session.status_idle",
    ]);
    await expectListed(bench, id, events);
    expect(wordsOf(await turn(bench, id, { say: "from here" }))).toEqual(["from here"]);
    const [thread] = await collect(bench.beta.sessions.threads.list(id));
    expect(thread).toMatchObject({ session_id: id, parent_thread_id: null });
    await bench.beta.sessions.update(id, { title: "known here too" });
    expect((await bench.test.engine.info("from-elsewhere")).title).toBe("known here too");
  });

  it("is found by its id, but not in lists of sessions with an agent and an environment", async () => {
    await bench.test.engine.create("unlisted", { agent: "scripted" });
    const own = await makeSession(bench);
    const ids = (await collect(bench.beta.sessions.list({ limit: 100 }))).map(({ id }) => id);
    expect(ids).toContain(own.id);
    expect(ids).not.toContain("sesn_unlisted");
    expect((await bench.test.engine.info(own.id)).agent).toBe("scripted");
    expect(await bench.beta.sessions.delete("sesn_unlisted")).toMatchObject({ type: "session_deleted" });
    await expect(bench.test.engine.info("unlisted")).rejects.toMatchObject({ code: "session_not_found" });
  });
});
