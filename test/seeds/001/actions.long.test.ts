import { NotFoundError } from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { collect } from "../../http/anthropic/anthropic-bench.ts";
import {
  history,
  isEnd,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  typesOf,
  watch,
  wordsOf,
} from "../../http/anthropic/session-bench.ts";
import { ASKING, TOOLSET, WEATHER } from "../../http/anthropic/toolsets.ts";
import { reader, useReader } from "./page.ts";
import { BAD, block, CLOSED, confirm, customResult, idle, system, toolResult } from "./answers.ts";

useReader();

describe("User Events", () => {
  it("user.interrupt | Stop the active run and return the session toward idle", async () => {
    const { id } = await makeSession(reader);
    const events = await watch(reader, id, async () => {
      await watch(
        reader,
        id,
        () => reader.send(id, message(text({ shell: "sleep 60" }, { say: "never" }))),
        ({ type }) => type === "agent.tool_use" || type === "span.model_request_start",
      );
      await reader.send(id, { type: "user.interrupt" });
    });
    expect(typesOf(events)).toContain("user.interrupt");
    expect(idle(events)?.stop_reason).toEqual({ type: "end_turn" });
    expect((await reader.beta.sessions.retrieve(id)).status).toBe("idle");
    expect(wordsOf(await history(reader, id))).toEqual([]);
  });

  it("session_thread_id is accepted on interrupt, tool confirmation, and tool-result events for SDK compatibility.", async () => {
    const { id } = await makeSession(reader, { tools: [ASKING, WEATHER], selfHosted: true });
    const [thread] = await collect(reader.beta.sessions.threads.list(id));
    for (const session_thread_id of [thread?.id, null]) {
      const thread = { session_thread_id };
      const asked = await reader.run(
        id,
        { custom: { name: "weather", input: {} } },
        { shell: "echo" },
        { sleep: 60_000 },
      );
      const [use] = ofType(asked, "agent.custom_tool_use");
      const next = await reader.tell(id, [customResult(use?.id, [block("sun")], thread)]);
      const [bash] = ofType(next, "agent.tool_use");
      await reader.tell(id, [confirm(bash?.id, { result: "allow", ...thread })], isRunning);
      await reader.tell(id, [toolResult(bash?.id, [block("out")], thread)], isRunning);
      const end = await reader.tell(id, [{ type: "user.interrupt", ...thread }], isEnd);
      expect(idle(end)?.stop_reason).toEqual({ type: "end_turn" });
    }
    const types = ["user.interrupt", "user.tool_confirmation", "user.tool_result", "user.custom_tool_result"];
    const told = await collect(reader.beta.sessions.events.list(id, { types: types as never }));
    expect(told.map((event) => (event as { session_thread_id?: unknown }).session_thread_id)).toEqual(
      [thread?.id, null].flatMap((one) => [one, one, one, one]),
    );
  });
});

describe("Agent Events", () => {
  it("agent.message, agent.thinking, agent.tool_use, agent.tool_result, agent.thread_context_compacted", async () => {
    const { id } = await makeSession(reader);
    const events = await reader.run(
      id,
      { think: "quietly" },
      { write: { path: "a.txt", content: "one" } },
      { compact: true },
      { say: "done" },
    );
    expect(typesOf(events).filter((type) => type.startsWith("agent."))).toEqual([
      "agent.thinking",
      "agent.tool_use",
      "agent.tool_result",
      "agent.thread_context_compacted",
      "agent.message",
    ]);
    expect(JSON.stringify(ofType(events, "agent.thinking"))).not.toContain("quietly");
  });
});

describe("Session Events", () => {
  it("session.status_running | A run is active: whoever looks while it is sees it so", async () => {
    const { id } = await makeSession(reader);
    await reader.tell(id, [message(text({ sleep: 200 }, { say: "x" }))], isRunning);
    expect((await reader.beta.sessions.retrieve(id)).status).toBe("running");
    const running = await collect(reader.beta.sessions.list({ statuses: ["running"] }));
    expect(running.map((one) => one.id)).toContain(id);
    await watch(reader, id, async () => {});
    expect((await reader.beta.sessions.retrieve(id)).status).toBe("idle");
  });

  it("session.deleted | The session was deleted and event streams should stop: also those of a thread, and of other dialects", async () => {
    const { id } = await makeSession(reader);
    await reader.run(id, { say: "x" });
    const [thread] = await collect(reader.beta.sessions.threads.list(id));
    const ofThread = await reader.beta.sessions.threads.events.stream(thread?.id ?? "", { session_id: id });
    const universal = await reader.server.fetch(`/v1/sessions/${id}/events/sse?offset=0&extensions=true`);
    const events = await watch(
      reader,
      id,
      () => reader.beta.sessions.delete(id),
      () => false,
    );
    expect(typesOf(events)).toEqual(["session.deleted"]);
    expect((await collect(ofThread)).map(({ type }) => type)).toEqual(["session.deleted"]);
    expect(await universal.text()).toContain("session.deleted");
    await expect(reader.beta.sessions.retrieve(id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(reader.beta.sessions.events.stream(id)).rejects.toBeInstanceOf(NotFoundError);
  });
});

describe("Span Events", () => {
  it("span.model_request_end | A model request ended and includes model usage when available", async () => {
    const { id } = await makeSession(reader);
    const events = await reader.run(
      id,
      { usage: { input_tokens: 7, output_tokens: 5, cache_read_tokens: 3, cache_write_tokens: 2 } },
      { say: "x" },
    );
    const [start] = ofType(events, "span.model_request_start");
    expect(ofType(events, "span.model_request_end")).toMatchObject([
      {
        model_request_start_id: start?.id,
        is_error: false,
        model_usage: {
          input_tokens: 7,
          output_tokens: 5,
          cache_read_input_tokens: 3,
          cache_creation_input_tokens: 2,
        },
      },
    ]);
    expect((await reader.beta.sessions.retrieve(id)).usage).toMatchObject({
      input_tokens: 7,
      output_tokens: 5,
      cache_read_input_tokens: 3,
    });
  });
});

describe("System Events", () => {
  it("system.message | Adds privileged system context for the accompanying turn and subsequent turns, also after the server died", async () => {
    const { id } = await makeSession(reader);
    const events = await reader.tell(id, [message(text({ say: "$history" })), system("Speak softly.")]);
    expect(typesOf(events).slice(0, 3)).toEqual(["user.message", "system.message", "session.status_running"]);
    await reader.server.kill();
    await reader.server.start();
    expect(wordsOf(await reader.run(id, { say: "$history" })).join()).toContain("Speak softly.");
    expect(ofType(await history(reader, id), "system.message")).toMatchObject([
      { content: [block("Speak softly.")], processed_at: expect.any(String) },
    ]);
  });

  it("at most one per request, it must be the final event, and it must immediately follow user.message, user.tool_result, or user.custom_tool_result.", async () => {
    const { id } = await makeSession(reader, { tools: [ASKING, WEATHER], selfHosted: true });
    const asked = await reader.run(id, { custom: { name: "weather", input: {} } }, { shell: "x" });
    const [use] = ofType(asked, "agent.custom_tool_use");
    const before = await history(reader, id);
    const hello = message("hello");
    for (const batch of [
      [system("a")],
      [system("a"), hello],
      [hello, system("a"), hello],
      [hello, system("a"), system("b")],
      [{ type: "user.interrupt" }, system("a")],
      [customResult(use?.id, [block("x")]), { type: "user.interrupt" }, system("a")],
    ])
      await expect(reader.send(id, ...batch), JSON.stringify(batch)).rejects.toMatchObject(BAD);
    expect(await history(reader, id)).toEqual(before);
    const next = await reader.tell(id, [customResult(use?.id, [block("x")]), system("a")]);
    const [bash] = ofType(next, "agent.tool_use");
    await expect(reader.send(id, confirm(bash?.id), system("b"))).rejects.toMatchObject(BAD);
    await reader.tell(id, [confirm(bash?.id)]);
    const end = await reader.tell(id, [toolResult(bash?.id, [block("x")]), system("b")], isEnd);
    expect(typesOf(end).slice(0, 2)).toEqual(["user.tool_result", "system.message"]);
    expect(idle(end)?.stop_reason.type).toBe("end_turn");
  });
});

describe("Action Resolution", () => {
  it("the session emits session.status_idle with stop_reason.type = requires_action and one or more event ids, and goes on with the last of them", async () => {
    const { id } = await makeSession(reader, { tools: [ASKING, WEATHER] });
    const parallel = [
      { shell: "echo one" },
      { write: { path: "a.txt", content: "a" } },
      { read: "nothing.txt" },
    ];
    const asked = await reader.run(id, { parallel }, { say: "done" });
    const uses = ofType(asked, "agent.tool_use");
    expect(uses.map(({ evaluated_permission }) => evaluated_permission)).toEqual(["ask", "ask", "ask"]);
    expect(idle(asked)?.stop_reason).toEqual({
      type: "requires_action",
      event_ids: uses.map((use) => use.id),
    });
    const [one, two, three] = uses.map((use) => use.id);
    // In one request, and in any order.
    const rest = await reader.tell(id, [
      confirm(three),
      confirm(one, { result: "deny", deny_message: "no echo" }),
    ]);
    expect(idle(rest)?.stop_reason).toEqual({ type: "requires_action", event_ids: [two] });
    const end = await reader.tell(id, [confirm(two)]);
    expect(idle(end)?.stop_reason).toEqual({ type: "end_turn" });
    const results = ofType(await history(reader, id), "agent.tool_result");
    expect(new Set(results.map(({ tool_use_id }) => tool_use_id))).toEqual(new Set([one, two, three]));
    expect(JSON.stringify(results.find(({ tool_use_id }) => tool_use_id === one))).toContain("no echo");
  });

  it("every pending event takes the response of its row, and no other", async () => {
    const { id } = await makeSession(reader, { tools: [ASKING, WEATHER], selfHosted: true });
    const asked = await reader.run(
      id,
      { shell: "echo" },
      { custom: { name: "weather", input: {} } },
      { say: "done" },
    );
    const [bash] = ofType(asked, "agent.tool_use");
    const content = [block("x")];
    const refused = async (...events: object[]): Promise<void> => {
      for (const event of events)
        await expect(reader.send(id, event), JSON.stringify(event)).rejects.toMatchObject(BAD);
    };
    await refused(toolResult(bash?.id, content), customResult(bash?.id, content), confirm("sevt_nothing"));
    await refused(confirm(bash?.id, { result: "maybe" }), confirm(bash?.id, {}));
    await refused(confirm(bash?.id, { result: "allow", deny_message: "why?" }));
    await reader.tell(id, [confirm(bash?.id)], isRunning);
    await expect(reader.send(id, customResult(bash?.id, content))).rejects.toMatchObject(CLOSED);
    const next = await reader.tell(id, [toolResult(bash?.id, content)]);
    const [weather] = ofType(next, "agent.custom_tool_use");
    await refused(confirm(weather?.id), toolResult(weather?.id, content));
    const end = await reader.tell(id, [customResult(weather?.id, [block("rain")])]);
    expect(wordsOf(end)).toEqual(["rain", "done"]);
    await expect(reader.send(id, customResult(weather?.id, [block("snow")]))).rejects.toMatchObject(CLOSED);
  });

  it("the answers may all come in one request, each for its own", async () => {
    const { id } = await makeSession(reader, { tools: [TOOLSET, WEATHER], selfHosted: true });
    const parallel = [{ shell: "echo" }, { custom: { name: "weather", input: { city: "Rome" } } }];
    const asked = await reader.run(id, { parallel }, { say: "done" });
    const [bash] = ofType(asked, "agent.tool_use");
    const [weather] = ofType(asked, "agent.custom_tool_use");
    expect(idle(asked)?.stop_reason).toMatchObject({ type: "requires_action" });
    const end = await reader.tell(id, [
      customResult(weather?.id, [block("sun")]),
      toolResult(bash?.id, [block("out")], { is_error: true }),
      system("and be quick"),
    ]);
    expect(idle(end)?.stop_reason).toEqual({ type: "end_turn" });
    expect(typesOf(end).slice(0, 3)).toEqual([
      "user.custom_tool_result",
      "user.tool_result",
      "system.message",
    ]);
  });

  it("Tool result content supports text, image, document, and search_result blocks for tool-result events. search_result is not accepted in user.message content.", async () => {
    const { id } = await makeSession(reader, { tools: [WEATHER] });
    const found = {
      type: "search_result",
      source: "https://example.com/a",
      title: "A page",
      content: [block("what the page says")],
      citations: { enabled: true },
    };
    const content = [
      block("some text"),
      { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "a document" } },
      found,
    ];
    const asked = await reader.run(id, { custom: { name: "weather", input: {} } });
    const [use] = ofType(asked, "agent.custom_tool_use");
    await expect(
      reader.send(id, { type: "user.message", content: [block("x"), found] }),
    ).rejects.toMatchObject({ ...BAD, message: expect.stringContaining("search_result") });
    const end = await reader.tell(id, [customResult(use?.id, content)]);
    expect(ofType(end, "user.custom_tool_result")).toMatchObject([{ content }]);
    const heard = wordsOf(end).join();
    for (const part of ["some text", "what the page says"]) expect(heard).toContain(part);
  });

  it("an empty result, and one without content, is a result", async () => {
    const { id } = await makeSession(reader, { tools: [WEATHER] });
    for (const rest of [{}, { content: [] }, { content: null, is_error: null }]) {
      const asked = await reader.run(id, { custom: { name: "weather", input: {} } }, { say: "done" });
      const [use] = ofType(asked, "agent.custom_tool_use");
      const answer = { type: "user.custom_tool_result", custom_tool_use_id: use?.id, ...rest };
      expect(idle(await reader.tell(id, [answer]))?.stop_reason).toEqual({ type: "end_turn" });
    }
  });
});
