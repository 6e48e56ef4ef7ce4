import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { claude } from "../../src/harness/claude/harness.ts";
import { codex } from "../../src/harness/codex/harness.ts";
import { gemini } from "../../src/harness/gemini/harness.ts";
import { grok } from "../../src/harness/grok/harness.ts";
import { opencode } from "../../src/harness/opencode/harness.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { ofType } from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { type AgentBench, openBench, SUMS } from "./agent-bench.ts";
import { outcomesOf, wordsOf } from "./told.ts";

interface Able {
  readonly harness: unknown;
  /** Whether its default model is offered a tool for plans. */
  readonly plans: boolean;
  /** Whether its default model is offered a tool that asks the user: Gemini CLI offers its own to a terminal alone. */
  readonly asks: boolean;
  /** The stop reason of a turn whose model refuses: the wires of Codex and Gemini CLI have none for it. */
  readonly refusal: "refusal" | "end_turn";
}

const AGENTS: readonly [AgentId, Able][] = [
  ["claude", { harness: claude, plans: false, asks: true, refusal: "refusal" }],
  ["codex", { harness: codex, plans: true, asks: true, refusal: "end_turn" }],
  ["opencode", { harness: opencode, plans: true, asks: true, refusal: "refusal" }],
  ["gemini", { harness: gemini, plans: false, asks: false, refusal: "end_turn" }],
  ["grok", { harness: grok, plans: true, asks: true, refusal: "refusal" }],
];

const WEATHER = {
  name: "weather",
  description: "The weather of a city.",
  inputSchema: { type: "object", properties: { city: { type: "string" } } },
};

/** Agents without a chosen model, as a new user runs them. They may offer other tools than with a chosen one. */
describe.each(AGENTS)("%s with its default model", (id, { harness, plans, asks, refusal }) => {
  const { reason } = requireAgent(id);
  let bench: AgentBench;
  beforeAll(async () => {
    if (reason !== undefined) return;
    bench = await openBench(harness, ({ url }) => ({ agent: id, env: LED_TO_MODEL[id].env(url) }));
  });
  afterAll(() => bench?.close());

  it.skipIf(reason !== undefined)("does every step of the script language", { timeout: 60_000 }, async () => {
    await bench.create("s", { permissionMode: "bypass", mcp: { sums: SUMS } });
    const { end, events } = await bench.play(
      "s",
      { think: "Hm." },
      { say: "I begin." },
      { shell: "echo shelled" },
      { write: { path: "a.txt", content: "one\ntwo\n" } },
      { edit: { path: "a.txt", old: "two", new: "three" } },
      { read: "a.txt" },
      { parallel: [{ shell: "echo left" }, { shell: "echo right" }] },
      { write: { path: "b.txt", content: "gone\n" } },
      { delete: "b.txt" },
      { mcp: { server: "sums", tool: "add", input: { a: 2, b: 40 } } },
      { plan: [{ content: "One", status: "in_progress", priority: "medium" }] },
      { say: "I am done." },
    );
    expect(end).toMatchObject({ status: "completed" });
    expect(assistantTexts(events)).toEqual(["I begin.", "I am done."]);
    const failed = outcomesOf(events).filter(({ status }) => status === "failed");
    // A call that the CLI refuses is a failed item.
    expect(failed).toMatchObject(plans ? [] : [{ output: expect.stringContaining("plan") }]);
    const said = JSON.stringify(outcomesOf(events));
    for (const word of ["shelled", "left", "right", "42"]) expect(said).toContain(word);
    expect(said).not.toMatch(/unsupported call|invalid arguments/);
    if (plans)
      expect(ofType(events, "plan.updated").at(-1)?.data.entries).toMatchObject([{ content: "One" }]);
    const files = await bench.test.engine.files("s");
    expect(Buffer.from(await files.read("a.txt")).toString()).toBe("one\nthree\n");
    await expect(files.stat("b.txt")).rejects.toThrow();
  });

  const step = (name: string, play: () => Promise<void>): void =>
    it.skipIf(reason !== undefined)(name, { timeout: 60_000 }, play);

  step("is told that a tool is not there, and the log has a failed item of it", async () => {
    await bench.create("missing", { permissionMode: "bypass" });
    const { end, events } = await bench.play(
      "missing",
      { custom: { name: "no_such_tool", input: { x: 1 } } },
      { say: "I go on." },
    );
    expect(end.status).toBe("completed");
    const failed = outcomesOf(events).filter(({ status }) => status === "failed");
    expect(failed).toMatchObject([{ output: expect.stringContaining("no_such_tool") }]);
    expect(assistantTexts(events)).toEqual(["I go on."]);
  });

  step("calls a tool of the application", async () => {
    await bench.create("custom", { permissionMode: "bypass", tools: { custom: [WEATHER] } });
    const steps = [{ custom: { name: "weather", input: { city: "Oslo" } } }, { say: "I know." }];
    const { end, events } = await bench.playWhile("custom", steps, async ({ until }) => {
      const { data } = await until("tool.requested");
      expect(data).toMatchObject({ name: "weather", input: { city: "Oslo" } });
      await bench.test.engine.resolveTool("custom", data.request_id, { output: "rain", by: "user" });
    });
    expect(end.status).toBe("completed");
    expect(JSON.stringify(outcomesOf(events))).toContain("rain");
  });

  step("asks a question, or has a failed item of it", async () => {
    await bench.create("question");
    const steps = [{ question: { prompt: "Which one?", options: ["a", "b"] } }, { say: "Well." }];
    const { end, events } = await bench.playWhile("question", steps, async ({ until }) => {
      if (!asks) return;
      const { data } = await until("question.requested");
      expect(data).toMatchObject({ prompt: "Which one?", options: ["a", "b"] });
      await bench.test.engine.resolveQuestion("question", data.question_id, { answers: [["b"]], by: "user" });
    });
    expect(end.status).toBe("completed");
    const failed = outcomesOf(events).filter(({ status }) => status === "failed");
    expect(failed).toMatchObject(asks ? [] : [{ output: expect.stringContaining("question") }]);
    expect(ofType(events, "question.resolved").map(({ data }) => data.response)).toEqual(asks ? ["b"] : []);
  });

  step("asks before it runs a command", async () => {
    await bench.create("ask");
    const steps = [{ ask: { shell: "echo asked > asked.txt" } }, { say: "Thanks." }];
    const { end } = await bench.ask("ask", { reply: "once" }, ...steps);
    expect(end.status).toBe("completed");
    const files = await bench.test.engine.files("ask");
    expect(Buffer.from(await files.read("asked.txt")).toString()).toBe("asked\n");
  });

  step("starts a sub-agent, whose words stand below the call", async () => {
    await bench.create("subagent", { permissionMode: "bypass" });
    const { end, events } = await bench.play(
      "subagent",
      { subagent: { name: "helper", steps: [{ say: "From below." }] } },
      { say: "Above again." },
    );
    expect(end.status).toBe("completed");
    expect(wordsOf(events)).toEqual(["Above again."]);
    const said = ofType(events, "item.completed").find(({ data }) =>
      data.item.content.some((part) => part.type === "text" && part.text === "From below."),
    );
    const calls = ofType(events, "item.completed").filter(({ data }) => data.item.kind === "tool_call");
    expect(calls.map(({ data }) => data.item.item_id)).toContain(said?.parent_id);
  });

  step("counts what the model says was used", async () => {
    await bench.create("usage", { permissionMode: "bypass" });
    const { end } = await bench.play(
      "usage",
      { usage: { input_tokens: 70_011, output_tokens: 7 } },
      { say: "Hm." },
    );
    expect(end.usage?.input_tokens).toBeGreaterThanOrEqual(70_011);
  });

  step("tells of the steps that a model cannot do", async () => {
    await bench.create("skipped", { permissionMode: "bypass" });
    const image = { data: "iVBORw0KGgo=", mime: "image/png" };
    const { end, events } = await bench.play("skipped", { image }, { compact: true }, { say: "Said." });
    expect(end.status).toBe("completed");
    expect(assistantTexts(events)).toEqual(["Said."]);
    const thoughts = wordsOf(events, "reasoning").join("\n");
    for (const name of ["image", "compact"]) expect(thoughts).toContain(`The step "${name}" is skipped`);
  });

  step("tries again where the model is overloaded, and fails where it cannot answer", async () => {
    await bench.create("fail", { permissionMode: "bypass" });
    const late = await bench.play("fail", { fail: { kind: "overloaded", times: 1 } }, { say: "Late." });
    expect(late.end.status).toBe("completed");
    expect(ofType(late.events, "turn.retrying").length).toBeGreaterThan(0);
    const never = await bench.play("fail", { fail: { kind: "terminal" } });
    expect(never.end).toMatchObject({ status: "failed", error: { code: "invalid_request" } });
  });

  step("ends the turn where the model refuses", async () => {
    await bench.create("refuse", { permissionMode: "bypass" });
    const { end, events } = await bench.play("refuse", { refuse: "I will not." });
    expect(end).toMatchObject({ status: "completed", stop_reason: refusal });
    expect(assistantTexts(events)).toContain("I will not.");
  });
});
