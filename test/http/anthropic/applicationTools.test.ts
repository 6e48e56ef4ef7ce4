import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, openAnthropic } from "./anthropicBench.ts";
import {
  allowing,
  awaitedIds,
  expectListed,
  makeSession,
  ofType,
  turn,
  typesOf,
  watch,
  wordsOf,
} from "./sessionBench.ts";
import { ASKING, WEATHER } from "./toolsets.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

describe("G7: a custom tool", () => {
  it("is run by the application, whose result is passed on", async () => {
    const { id } = await makeSession(bench, { tools: [WEATHER] });
    for (const is_error of [false, true]) {
      const first = await turn(bench, id, { custom: { name: "weather", input: { city: "Rome" } } });
      const [use] = ofType(first, "agent.custom_tool_use");
      expect(use).toMatchObject({ name: "weather", input: { city: "Rome" } });
      expect(awaitedIds(first)).toEqual([use?.id]);
      const result = {
        type: "user.custom_tool_result",
        custom_tool_use_id: use?.id,
        content: [{ type: "text", text: "sunny" }],
        is_error,
      };
      const second = await watch(bench, id, () => bench.send(id, result));
      expect(second[0]).toMatchObject(result);
      expect(typesOf(second)[1]).toBe("session.status_running");
      expect(typesOf(second)).not.toContain("agent.tool_result");
      expect(wordsOf(second)).toEqual(["sunny"]);
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
    await expect(bench.send(id, wrong)).rejects.toThrow("waits for a user.custom_tool_result");
    const second = await watch(bench, id, () =>
      bench.send(id, { type: "user.custom_tool_result", custom_tool_use_id: custom?.id, content }),
    );
    expect(wordsOf(second)).toEqual(["mine"]);
    const [use] = ofType(second, "agent.tool_use");
    expect(use).toMatchObject({ name: "read", input: { file_path: "y.txt" } });
    const third = await watch(bench, id, () =>
      bench.send(id, { type: "user.tool_result", tool_use_id: use?.id, content }),
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
    const second = await watch(bench, id, () => bench.send(id, result));
    expect(second[0]).toMatchObject(result);
    expect(wordsOf(second)).toEqual(["b"]);
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
    expect(awaitedIds(first)).toEqual([use?.id]);
    const content = [{ type: "text", text: "far-away" }];
    const result = { type: "user.tool_result", tool_use_id: use?.id, content };
    const second = await watch(bench, id, () => bench.send(id, result));
    expect(second[0]).toMatchObject(result);
    expect(typesOf(second)).not.toContain("agent.tool_result");
    expect(wordsOf(second)).toEqual(["done"]);
    await expectListed(bench, id, [...first, ...second]);
  });

  it("keeps its id open for the result when it was asked for and allowed", async () => {
    const { id } = await makeSession(bench, { selfHosted: true, tools: [ASKING] });
    const first = await turn(bench, id, { shell: "hostname" });
    const [use] = ofType(first, "agent.tool_use");
    expect(use).toMatchObject({ evaluated_permission: "ask" });
    const allow = allowing(use?.id);
    const second = await watch(bench, id, () => bench.send(id, allow));
    expect(typesOf(second)).toEqual([
      "user.tool_confirmation",
      "session.status_running",
      "session.status_idle",
    ]);
    expect(awaitedIds(second)).toEqual([use?.id]);
    const content = [{ type: "text", text: "far" }];
    const result = { type: "user.tool_result", tool_use_id: use?.id, content };
    const third = await watch(bench, id, () => bench.send(id, result));
    expect(third.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
  });

  it("does not keep an interrupt waiting when its result came too early", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const [use] = ofType(await turn(bench, id, { shell: "sleep 60" }), "agent.tool_use");
    await bench.send(id, allowing(use?.id));
    const answered: string[] = [];
    // Nobody will ask for this result: its sender waits for as long as the turn lasts, or for moments.
    const early = bench
      .send(id, { type: "user.tool_result", tool_use_id: use?.id, content: [{ type: "text", text: "x" }] })
      .catch(() => {})
      .then(() => answered.push("result"));
    const stop = bench.send(id, { type: "user.interrupt" }).then(() => answered.push("interrupt"));
    await Promise.all([early, stop]);
    expect(answered).toEqual(["interrupt", "result"]);
  });
});
