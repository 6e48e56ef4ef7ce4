import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, openAnthropic } from "./anthropicBench.ts";
import {
  type Event,
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
} from "./sessionBench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const send = (id: string, ...events: object[]) =>
  bench.beta.sessions.events.send(id, { events: events as never });
const ASKING = [
  { type: "agent_toolset_20260401", default_config: { permission_policy: { type: "always_ask" } } },
];
const WEATHER = {
  type: "custom",
  name: "weather",
  description: "tells it",
  input_schema: { type: "object" },
};
const allowing = (tool_use_id: string | undefined) => ({
  type: "user.tool_confirmation",
  tool_use_id,
  result: "allow",
});
const words = (events: readonly Event[]): string[] =>
  ofType(events, "agent.message").flatMap(({ content }) =>
    content.map((block) => (block.type === "text" ? block.text : "")),
  );

describe("G1: a plain turn", () => {
  it("runs, asks its model, says, and is idle at once", async () => {
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
    expect(words(events)).toEqual(["hello there"]);
    expect((await bench.beta.sessions.retrieve(id)).status).toBe("idle");
    await expectListed(bench, id, events);
  });
});

describe("G2: a thought", () => {
  it("is told as one", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { think: "hm" }, { say: "ok" });
    expect(typesOf(events).slice(3, 5)).toEqual(["agent.thinking", "agent.message"]);
    await expectListed(bench, id, events);
  });
});

describe("G3: a tool that may run", () => {
  it("is told with its permission, and its result names it", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { shell: "echo hi" }, { say: "done" });
    const [use] = ofType(events, "agent.tool_use");
    expect(use).toMatchObject({
      name: "bash",
      input: { command: "echo hi" },
      evaluated_permission: "allow",
      evaluation: { type: "always_allow" },
    });
    const [result] = ofType(events, "agent.tool_result");
    expect(result).toMatchObject({ tool_use_id: use?.id, is_error: false });
    expect(JSON.stringify(result?.content)).toContain("hi");
    // The model's request ends behind the call that it made.
    expect(typesOf(events)).toEqual([
      "user.message",
      "session.status_running",
      "span.model_request_start",
      "agent.tool_use",
      "span.model_request_end",
      "agent.tool_result",
      "span.model_request_start",
      "agent.message",
      "span.model_request_end",
      "session.status_idle",
    ]);
    await expectListed(bench, id, events);
  });

  it("has the toolset's own names and inputs", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(
      bench,
      id,
      { write: { path: "a.txt", content: "one" } },
      { edit: { path: "a.txt", old: "one", new: "two" } },
      { read: "a.txt" },
      { shell: "exit 3" },
    );
    expect(ofType(events, "agent.tool_use").map(({ name, input }) => [name, input])).toEqual([
      ["write", { file_path: "a.txt", content: "one" }],
      ["edit", { file_path: "a.txt", old_string: "one", new_string: "two" }],
      ["read", { file_path: "a.txt" }],
      ["bash", { command: "exit 3" }],
    ]);
    expect(ofType(events, "agent.tool_result").map(({ is_error }) => is_error)).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });
});

describe("a tool that has to be asked for", () => {
  it("G4: waits, and runs when it is allowed", async () => {
    const { id } = await makeSession(bench, { tools: ASKING });
    const first = await turn(bench, id, { shell: "echo made > made.txt" }, { say: "done" });
    const [use] = ofType(first, "agent.tool_use");
    expect(use).toMatchObject({ evaluated_permission: "ask", evaluation: { type: "always_ask" } });
    expect(first.at(-1)).toMatchObject({
      type: "session.status_idle",
      stop_reason: { type: "requires_action", event_ids: [use?.id] },
    });
    expect((await bench.beta.sessions.retrieve(id)).status).toBe("idle");
    const files = await bench.test.engine.files(id);
    await expect(files.stat("made.txt")).rejects.toThrow();

    const allowed = { type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" };
    const second = await watch(bench, id, () => send(id, allowed));
    expect(typesOf(second).slice(0, 3)).toEqual([
      "user.tool_confirmation",
      "session.status_running",
      "agent.tool_result",
    ]);
    expect(second[0]).toMatchObject({ tool_use_id: use?.id, result: "allow" });
    expect(second.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect((await files.stat("made.txt")).size).toBe(5);
    await expectListed(bench, id, [...first, ...second]);
  });

  it("G5: is not run when it is denied, and the model is told why", async () => {
    const { id } = await makeSession(bench, { tools: ASKING });
    const first = await turn(bench, id, { shell: "echo made > made.txt" }, { say: "went on" });
    const [use] = ofType(first, "agent.tool_use");
    const denied = {
      type: "user.tool_confirmation",
      tool_use_id: use?.id,
      result: "deny",
      deny_message: "not on a Sunday",
    };
    const second = await watch(bench, id, () => send(id, denied));
    expect(second[0]).toMatchObject({ ...denied });
    const [result] = ofType(second, "agent.tool_result");
    expect(result).toMatchObject({ tool_use_id: use?.id, is_error: true });
    expect(JSON.stringify(result?.content)).toContain("not on a Sunday");
    expect(words(second)).toEqual(["went on"]);
    await expect((await bench.test.engine.files(id)).stat("made.txt")).rejects.toThrow();
  });

  it("is told again with the rest when one of several is resolved", async () => {
    const { id } = await makeSession(bench, { tools: ASKING });
    const first = await turn(bench, id, { parallel: [{ shell: "echo a" }, { shell: "echo b" }] });
    const all = await collectUntil(id, first, (events) => lastIds(events).length === 2);
    const [one, other] = lastIds(all);
    const second = await watch(bench, id, () => send(id, allowing(other)));
    expect(lastIds(second)).toEqual([one]);
    const third = await watch(bench, id, () => send(id, allowing(one)), isEnd);
    expect(third.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
  });

  it("takes one answer, of the right kind, and for itself alone", async () => {
    const { id } = await makeSession(bench, { tools: ASKING });
    const other = await makeSession(bench);
    const first = await turn(bench, id, { shell: "true" });
    const [use] = ofType(first, "agent.tool_use");
    const confirmation = { type: "user.tool_confirmation", tool_use_id: use?.id ?? "", result: "allow" };
    const before = await history(bench, id);
    const wrong = [
      { ...confirmation, tool_use_id: "sevt_nope" },
      { ...confirmation, tool_use_id: (before[0] as { id: string }).id },
      { ...confirmation, deny_message: "no" },
      { type: "user.tool_result", tool_use_id: use?.id, content: [] },
      { type: "user.custom_tool_result", custom_tool_use_id: use?.id, content: [] },
    ];
    for (const event of wrong) await expect(send(id, event)).rejects.toMatchObject({ status: 400 });
    await expect(send(other.id, confirmation)).rejects.toMatchObject({ status: 400 });
    // Of a batch with one answer too many, nothing happens.
    await expect(send(id, confirmation, confirmation)).rejects.toMatchObject({ status: 409 });
    expect(await history(bench, id)).toEqual(before);
    await watch(bench, id, () => send(id, confirmation), isEnd);
    const refused = await send(id, confirmation).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 409 });
    expect((refused as { headers: Headers }).headers.get("x-should-retry")).toBe("false");
  });
});

describe("G7: a custom tool", () => {
  it("is run by the application, whose result is passed on", async () => {
    const { id } = await makeSession(bench, { tools: [WEATHER] });
    for (const is_error of [false, true]) {
      const first = await turn(bench, id, { custom: { name: "weather", input: { city: "Rome" } } });
      const [use] = ofType(first, "agent.custom_tool_use");
      expect(use).toMatchObject({ name: "weather", input: { city: "Rome" } });
      expect(lastIds(first)).toEqual([use?.id]);
      const result = {
        type: "user.custom_tool_result",
        custom_tool_use_id: use?.id,
        content: [{ type: "text", text: "sunny" }],
        is_error,
      };
      const second = await watch(bench, id, () => send(id, result));
      expect(second[0]).toMatchObject(result);
      expect(typesOf(second)[1]).toBe("session.status_running");
      expect(typesOf(second)).not.toContain("agent.tool_result");
      expect(words(second)).toEqual(["sunny"]);
      await expectListed(bench, id, [...first, ...second]);
    }
  });

  it("is told as one even if it is called like a tool of the toolset", async () => {
    const reader = { ...WEATHER, name: "read" };
    const { id } = await makeSession(bench, {
      selfHosted: true,
      tools: [{ type: "agent_toolset_20260401" }, reader],
    });
    const first = await turn(
      bench,
      id,
      { custom: { name: "read", input: { path: "x" } } },
      { read: "y.txt" },
    );
    const [custom] = ofType(first, "agent.custom_tool_use");
    expect(custom).toMatchObject({ name: "read", input: { path: "x" } });
    const content = [{ type: "text", text: "mine" }];
    const wrong = { type: "user.tool_result", tool_use_id: custom?.id, content };
    await expect(send(id, wrong)).rejects.toThrow("waits for a user.custom_tool_result");
    const second = await watch(bench, id, () =>
      send(id, { type: "user.custom_tool_result", custom_tool_use_id: custom?.id, content }),
    );
    expect(words(second)).toEqual(["mine"]);
    const [use] = ofType(second, "agent.tool_use");
    expect(use).toMatchObject({ name: "read", input: { file_path: "y.txt" } });
    const third = await watch(bench, id, () =>
      send(id, { type: "user.tool_result", tool_use_id: use?.id, content }),
    );
    expect(third.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    await expectListed(bench, id, [...first, ...second, ...third]);
  });

  it("is also how a question of the agent's appears", async () => {
    const { id } = await makeSession(bench);
    const first = await turn(bench, id, { question: { prompt: "which?", options: ["a", "b"] } });
    const [use] = ofType(first, "agent.custom_tool_use");
    expect(use).toMatchObject({
      name: "ask_user_question",
      input: { prompt: "which?", options: ["a", "b"] },
    });
    const content = [{ type: "text", text: "b" }];
    const result = { type: "user.custom_tool_result", custom_tool_use_id: use?.id, content };
    const second = await watch(bench, id, () => send(id, result));
    expect(second[0]).toMatchObject(result);
    expect(words(second)).toEqual(["b"]);
  });
});

describe("G8: a tool that runs where the application is", () => {
  it("is told as a tool of the toolset, and its result comes from there", async () => {
    const { id } = await makeSession(bench, { selfHosted: true });
    const first = await turn(bench, id, { shell: "hostname" }, { say: "done" });
    const [use] = ofType(first, "agent.tool_use");
    expect(use).toMatchObject({
      name: "bash",
      input: { command: "hostname" },
      evaluated_permission: "allow",
    });
    expect(lastIds(first)).toEqual([use?.id]);
    const content = [{ type: "text", text: "far-away" }];
    const result = { type: "user.tool_result", tool_use_id: use?.id, content };
    const second = await watch(bench, id, () => send(id, result));
    expect(second[0]).toMatchObject(result);
    expect(typesOf(second)).not.toContain("agent.tool_result");
    expect(words(second)).toEqual(["done"]);
    await expectListed(bench, id, [...first, ...second]);
  });

  it("keeps its id open for the result when it was asked for and allowed", async () => {
    const { id } = await makeSession(bench, { selfHosted: true, tools: ASKING });
    const first = await turn(bench, id, { shell: "hostname" });
    const [use] = ofType(first, "agent.tool_use");
    expect(use).toMatchObject({ evaluated_permission: "ask" });
    const allow = { type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" };
    const second = await watch(bench, id, () => send(id, allow));
    expect(typesOf(second)).toEqual([
      "user.tool_confirmation",
      "session.status_running",
      "session.status_idle",
    ]);
    expect(lastIds(second)).toEqual([use?.id]);
    const content = [{ type: "text", text: "far" }];
    const result = { type: "user.tool_result", tool_use_id: use?.id, content };
    const third = await watch(bench, id, () => send(id, result));
    expect(third.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
  });
});

describe("a tool that is switched off", () => {
  const off = { type: "agent_toolset_20260401", configs: [{ name: "bash", enabled: false }] };

  it("is not run, whoever asks for it, and the agent goes on", async () => {
    const { id } = await makeSession(bench, { tools: [off] });
    const events = await turn(
      bench,
      id,
      { shell: "touch ran" },
      { ask: { shell: "touch ran" } },
      { write: { path: "a.txt", content: "x" } },
      { read: "ran" },
    );
    const uses = ofType(events, "agent.tool_use");
    expect(uses.map(({ name, evaluated_permission: how }) => [name, how])).toEqual([
      ["bash", "deny"],
      ["bash", "deny"],
      ["write", "allow"],
      ["read", "allow"],
    ]);
    const results = ofType(events, "agent.tool_result");
    const refusal = {
      is_error: true,
      content: [{ type: "text", text: expect.stringContaining("switched off") }],
    };
    expect(results.slice(0, 2)).toEqual([expect.objectContaining(refusal), expect.objectContaining(refusal)]);
    expect(results.map(({ is_error: failed }) => failed)).toEqual([true, true, false, true]);
    expect(results.map(({ tool_use_id }) => tool_use_id)).toEqual(uses.map((use) => use.id));
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(typesOf(events)).not.toContain("user.tool_confirmation");
    await expectListed(bench, id, events);
  });

  it("is not run by the application either, and can be switched on again", async () => {
    const { id } = await makeSession(bench, { tools: [off], selfHosted: true });
    const events = await turn(bench, id, { shell: "hostname" }, { say: "done" });
    expect(ofType(events, "agent.tool_use")).toMatchObject([{ evaluated_permission: "deny" }]);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    await bench.beta.sessions.update(id, { agent: { tools: [{ type: "agent_toolset_20260401" }] } });
    const later = await turn(bench, id, { shell: "hostname" });
    expect(ofType(later, "agent.tool_use")).toMatchObject([{ evaluated_permission: "allow" }]);
    expect(later.at(-1)).toMatchObject({ stop_reason: { type: "requires_action" } });
  });

  it("may be every one but one", async () => {
    const { id } = await makeSession(bench, {
      tools: [
        {
          type: "agent_toolset_20260401",
          default_config: { enabled: false },
          configs: [{ name: "read", enabled: true }],
        },
      ],
    });
    const events = await turn(bench, id, { write: { path: "a.txt", content: "x" } }, { read: "a.txt" });
    expect(ofType(events, "agent.tool_use").map((use) => use.evaluated_permission)).toEqual([
      "deny",
      "allow",
    ]);
  });
});

describe("G12: an interrupt", () => {
  it("stops the run, is no message, and the next message works", async () => {
    const { id } = await makeSession(bench);
    await watch(bench, id, () => send(id, message(text({ sleep: 60_000 }, { say: "never" }))), isRunning);
    const events = await watch(bench, id, () => send(id, { type: "user.interrupt" }));
    expect(typesOf(events)[0]).toBe("user.interrupt");
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(words(await turn(bench, id, { say: "again" }))).toEqual(["again"]);
    const all = await history(bench, id);
    expect(words(all)).toEqual(["again"]);
  });

  it("and a message behind it in one request: stop, then start", async () => {
    const { id } = await makeSession(bench);
    await watch(bench, id, () => send(id, message(text({ sleep: 60_000 }))), isRunning);
    let idles = 0;
    const events = await watch(
      bench,
      id,
      () => send(id, { type: "user.interrupt" }, message(text({ say: "next" }))),
      (event) => isHalt(event) && ++idles === 2,
    );
    expect(words(events)).toEqual(["next"]);
    await expectListed(bench, id, events);
  });

  it("ends a turn that waits, and what it waited for takes no answer any more", async () => {
    const { id } = await makeSession(bench, { tools: ASKING });
    const first = await turn(bench, id, { shell: "true" }, { say: "never" });
    const events = await watch(bench, id, () => send(id, { type: "user.interrupt" }), isEnd);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(typesOf(events)).not.toContain("user.tool_confirmation");
    const refused = send(id, allowing(lastIds(first)[0]));
    await expect(refused).rejects.toMatchObject({
      status: expect.toSatisfy((status) => [400, 409].includes(status)),
    });
    expect(words(await turn(bench, id, { say: "again" }))).toEqual(["again"]);
    await expectListed(bench, id, [...first, ...events]);
  });

  it("of an idle session is heard, and nothing comes of it", async () => {
    const { id } = await makeSession(bench);
    const { data } = await send(id, { type: "user.interrupt" });
    expect(data).toMatchObject([{ type: "user.interrupt", id: expect.stringMatching(/^sevt_/) }]);
    expect(await history(bench, id)).toEqual([]);
  });
});

describe("G15: a message while an answer is awaited", () => {
  it("waits until the actions are resolved", async () => {
    const { id } = await makeSession(bench, { tools: ASKING });
    const first = await turn(bench, id, { shell: "true" }, { say: "one" });
    const { data } = await send(id, message(text({ say: "two" })));
    expect(data).toMatchObject([{ type: "user.message", processed_at: null }]);
    expect((await history(bench, id)).at(-1)).toEqual(data?.[0]);
    const [tool_use_id] = lastIds(first);
    let ends = 0;
    const allow = { type: "user.tool_confirmation", tool_use_id, result: "allow" };
    const events = await watch(
      bench,
      id,
      () => send(id, allow),
      (event) => isEnd(event) && ++ends === 2,
    );
    expect(words(events)).toEqual(["one", "two"]);
    await expectListed(bench, id, events);
  });
});

describe("G16: compaction and refusal", () => {
  it("are told in their own words", async () => {
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
  it("end with their usage, and the session's is their sum", async () => {
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
  it("is the session's only one, and all of it", async () => {
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
    await send(id, message(text({ say: "again" })));
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
  it("is the same session here, under its own name", async () => {
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
    expect(words(await turn(bench, id, { say: "from here" }))).toEqual(["from here"]);
    const [thread] = await collect(bench.beta.sessions.threads.list(id));
    expect(thread).toMatchObject({ session_id: id, parent_thread_id: null });
    await bench.beta.sessions.update(id, { title: "known here too" });
    expect((await bench.test.engine.info("from-elsewhere")).title).toBe("known here too");
  });

  it("is found by its id, and not among those that have an agent and an environment", async () => {
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

function lastIds(events: readonly Event[]): string[] {
  const [idle] = ofType(events, "session.status_idle").slice(-1);
  return idle?.stop_reason.type === "requires_action" ? idle.stop_reason.event_ids : [];
}

/** What has been told by now, once it is enough: requests may join one by one. */
async function collectUntil(
  id: string,
  first: readonly Event[],
  isEnough: (events: readonly Event[]) => boolean,
): Promise<Event[]> {
  for (let events = [...first]; ; events = await history(bench, id)) if (isEnough(events)) return events;
}
