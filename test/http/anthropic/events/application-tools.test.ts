import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, openAnthropic } from "../anthropic-bench.ts";
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
} from "../session-bench.ts";
import { ASKING, WEATHER } from "../toolsets.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

describe("G7: a custom tool", () => {
  it("is run by the application, and its result reaches the agent", async () => {
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

  it("stays a custom tool with the name of a toolset's tool", async () => {
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

  it("also stands for a question of the agent", async () => {
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

  it("lists the answer to a question as it was sent", async () => {
    const { id } = await makeSession(bench);
    const first = await turn(bench, id, { question: { prompt: "which?", options: ["a", "b"] } });
    const [use] = ofType(first, "agent.custom_tool_use");
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } };
    const result = {
      type: "user.custom_tool_result",
      custom_tool_use_id: use?.id,
      content: [{ type: "text", text: "b" }, image],
      is_error: false,
    };
    const system = { type: "system.message", content: [{ type: "text", text: "Speak softly." }] };
    let sent: unknown;
    const second = await watch(bench, id, async () => {
      sent = (await bench.send(id, result, system)).data;
    });
    expect(second.slice(0, 3)).toMatchObject([result, system, { type: "session.status_running" }]);
    expect(second.slice(0, 2)).toEqual(sent);
    expect(wordsOf(second)).toEqual(["b\n<system-message>\nSpeak softly.\n</system-message>"]);
    await expectListed(bench, id, [...first, ...second]);
  });
});

describe("G8: a tool that runs where the application is", () => {
  it("appears as a tool of the toolset, with the application's result", async () => {
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

  it("keeps its id for the result after a confirmation", async () => {
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

  it("does not delay an interrupt after an early result", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const [use] = ofType(await turn(bench, id, { shell: "sleep 60" }), "agent.tool_use");
    await bench.send(id, allowing(use?.id));
    const answered: string[] = [];
    // No request for this result will come, so its sender waits until the turn ends or a short time.
    const early = bench
      .send(id, { type: "user.tool_result", tool_use_id: use?.id, content: [{ type: "text", text: "x" }] })
      .catch(() => {})
      .then(() => answered.push("result"));
    const stop = bench.send(id, { type: "user.interrupt" }).then(() => answered.push("interrupt"));
    await Promise.all([early, stop]);
    expect(answered).toEqual(["interrupt", "result"]);
  });
});
