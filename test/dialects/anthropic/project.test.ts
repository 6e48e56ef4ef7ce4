import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { anthropic, LISTED_TYPES } from "../../../src/dialects/anthropic/project.ts";
import type { AnthropicState, AnthropicView } from "../../../src/dialects/anthropic/state.ts";
import type { Frame } from "../../../src/dialects/port.ts";
import { readStateAt } from "../../../src/http/stream/cursor.ts";
import type { StoredEvent } from "../../../src/log/port.ts";
import { openEngine, script, type TestEngine, waitFor } from "../../support/engine.ts";

let test: TestEngine;
let log: StoredEvent[];
beforeAll(async () => {
  test = await openEngine();
  await test.engine.create("s", { agent: "scripted", tools: { rules: { write: "ask" }, client: ["read"] } });
  await perform();
  log = await test.log.read("s", { after: 0, limit: 1000 });
}, 60_000);
afterAll(() => test.close());

const sent = (words: string) => ({ type: "user.message", content: [{ type: "text", text: words }] });

/** A session with every kind of event: tools, requests, answers, queued messages, failures, an interrupt, the end. */
async function perform(): Promise<void> {
  const { engine, log } = test;
  const say = (...steps: unknown[]) => {
    const words = script(...steps);
    const content = [{ type: "text", text: words }] as const;
    return engine.submit("s", [{ kind: "message", content, payload: sent(words) }], { via: "anthropic" });
  };
  const ended = (count: number) => {
    let seen = 0;
    return waitFor(log, "s", "turn.ended", { where: () => ++seen === count });
  };
  await say(
    { think: "hm" },
    { say: "one two three" },
    { parallel: [{ shell: "echo a" }, { shell: "echo b" }] },
    { write: { path: "a.txt", content: "x" } },
    { read: "a.txt" },
    { custom: { name: "weather", input: {} } },
    { question: { prompt: "which?", options: ["a"] } },
    { compact: true },
    { fail: { kind: "overloaded", times: 1 } },
    { say: "done" },
  );
  await waitFor(log, "s", "turn.started");
  await say(
    { subagent: { name: "r", steps: [{ say: "nested" }, { shell: "echo c" }] } },
    { usage: { input_tokens: 3 } },
  );
  const asked = await waitFor(log, "s", "permission.requested");
  await engine.resolvePermission("s", asked.data.permission_id, { reply: "once" });
  for (const name of ["read", "weather"]) {
    const { data } = await waitFor(log, "s", "tool.requested", { where: ({ data }) => data.name === name });
    await engine.resolveTool("s", data.request_id, { output: "sunny" });
  }
  const { data } = await waitFor(log, "s", "question.requested");
  await engine.resolveQuestion("s", data.question_id, { answers: [["a"]] });
  await ended(2);
  await say({ refuse: "no" });
  await ended(3);
  await engine.update("s", { title: "named", metadata: { a: "b" } });
  await say({ shell: "sleep 60" });
  await waitFor(log, "s", "turn.started", { where: ({ data }) => data.turn_id !== "" && isFourth() });
  await engine.submit("s", [{ kind: "interrupt", by: "user", payload: { type: "user.interrupt" } }], {
    via: "anthropic",
  });
  await ended(4);
  await say({ sleep: 300 }, { fail: { kind: "terminal" } });
  await say({ say: "never" });
  await waitFor(log, "s", "session.ended");
}

let starts = 0;
const isFourth = (): boolean => ++starts === 4;

function project(events: readonly StoredEvent[], view: AnthropicView, state?: AnthropicState): Frame[] {
  let current = state ?? anthropic.initial(view);
  return events.flatMap((event) => {
    const emitted = anthropic.project(current, event);
    current = emitted.state;
    return [...emitted.frames];
  });
}

const typeOf = ({ data }: Frame): string => (JSON.parse(data) as { type: string }).type;

describe("the projection", () => {
  it("has every event in the terms of this dialect", () => {
    const types = new Set(project(log, { deltas: ["agent.message", "agent.thinking"] }).map(typeOf));
    for (const type of [
      "user.message",
      "user.interrupt",
      "user.tool_confirmation",
      "user.tool_result",
      "user.custom_tool_result",
      "agent.message",
      "agent.thinking",
      "agent.tool_use",
      "agent.tool_result",
      "agent.custom_tool_use",
      "agent.thread_context_compacted",
      "session.status_running",
      "session.status_idle",
      "session.status_rescheduled",
      "session.status_terminated",
      "session.error",
      "session.updated",
      "span.model_request_start",
      "span.model_request_end",
      "event_start",
      "event_delta",
    ])
      expect(types, type).toContain(type);
  });

  it("is the same for a reader from any position", async () => {
    const source = { session: "s", dialect: anthropic, view: {} };
    for (let cursor = 0; cursor <= log.length; cursor++) {
      const state = await readStateAt(test.log, source, cursor);
      const rest = project(log.slice(cursor), {}, state);
      const whole = project(log, {});
      expect(rest, `behind ${cursor}`).toEqual(rest.length === 0 ? [] : whole.slice(-rest.length));
      // The frames before and after the position together are all frames.
      expect(project(log.slice(0, cursor), {}).length + rest.length, `behind ${cursor}`).toBe(whole.length);
    }
  });

  it("does not mutate its input state", () => {
    let state = anthropic.initial({});
    for (const event of log) {
      const before = JSON.stringify(state);
      const emitted = anthropic.project(state, event);
      expect(JSON.stringify(state)).toBe(before);
      expect(anthropic.project(state, event)).toEqual(emitted);
      ({ state } = emitted);
    }
  });

  it("lists the streamed events once each, without previews and queued input", () => {
    const emitted = LISTED_TYPES;
    const listed = project(
      log.filter(({ type }) => emitted.has(type)),
      { list: true },
    );
    const streamed = project(log, {}).filter(({ data }) => !data.endsWith('"processed_at":null}'));
    expect(listed.map(({ data }) => data)).toEqual(streamed.map(({ data }) => data));
    const previewed = project(log, { deltas: ["agent.message"] }).filter(({ id }) => id !== null);
    expect(previewed).toEqual(project(log, {}));
    const ids = listed.map(({ data }) => (JSON.parse(data) as { id: string }).id);
    expect(new Set(ids).size).toBe(ids.length);
    const times = listed.map(({ data }) => (JSON.parse(data) as { processed_at: string }).processed_at);
    expect(times).toEqual(times.toSorted());
  });

  it("closes every call with a result and every span with an end", () => {
    const events = project(log, { list: true }).map(({ data }) => JSON.parse(data) as Record<string, string>);
    const ids = (type: string): (string | undefined)[] =>
      events.flatMap((event) => (event["type"] === type ? [event["id"]] : []));
    const named = (key: string): (string | undefined)[] => events.flatMap((event) => event[key] ?? []);
    expect(named("model_request_start_id").toSorted()).toEqual(ids("span.model_request_start").toSorted());
    const results = events.flatMap((event) => {
      const isResult = event["type"] === "agent.tool_result" || event["type"] === "user.tool_result";
      return isResult ? [event["tool_use_id"]] : [];
    });
    expect(results.toSorted()).toEqual(ids("agent.tool_use").toSorted());
    expect(named("custom_tool_use_id").toSorted()).toEqual(ids("agent.custom_tool_use").toSorted());
  });

  it("ends with the session", () => {
    const last = log.findIndex(({ type }) => type === "session.ended");
    const state = log
      .slice(0, last)
      .reduce((state, event) => anthropic.project(state, event).state, anthropic.initial({}));
    const emitted = anthropic.project(state, log[last] as StoredEvent);
    expect(emitted.last).toBe(true);
    expect(emitted.frames.map(typeOf)).toEqual(["session.status_terminated"]);
  });
});

describe("an error of the engine", () => {
  /** Runs one turn, and returns the errors and the ends that clients see. */
  async function errorsOf(id: string, spec: object, ...steps: unknown[]): Promise<string[]> {
    const { engine, log } = test;
    await engine.create(id, { agent: "scripted", ...spec });
    await engine.send(id, { content: [{ type: "text", text: script(...steps) }], via: "test" });
    await waitFor(log, id, "turn.ended");
    await engine.report(id, { code: "internal", message: "reported between two turns" }).catch(() => {});
    return project(await log.read(id, { after: 0, limit: 1000 }), {})
      .map(({ data }) => JSON.parse(data) as { type: string; error?: { message: string } })
      .filter(({ type }) => type === "session.error" || type === "session.status_idle")
      .map(({ type, error }) => error?.message ?? type);
  }

  it("that fails no turn is a session.error, in a turn and between two", async () => {
    expect(
      await errorsOf("unattended", { unattended: true }, { ask: { shell: "true" } }, { say: "on" }),
    ).toEqual([expect.stringMatching(/unattended/), "session.status_idle", "reported between two turns"]);
  });

  it("that fails its turn is one session.error", async () => {
    const steps = [{ say: "begun" }, { shell: "sleep 60" }];
    expect(await errorsOf("limited", { turnTimeoutMs: 500, permissionMode: "bypass" }, ...steps)).toEqual([
      expect.stringMatching(/longer than its limit/),
      "session.status_idle",
      "reported between two turns",
    ]);
  });
});
