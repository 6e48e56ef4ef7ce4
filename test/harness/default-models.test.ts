import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { claude } from "../../src/harness/claude/harness.ts";
import { codex } from "../../src/harness/codex/harness.ts";
import { gemini } from "../../src/harness/gemini/harness.ts";
import { opencode } from "../../src/harness/opencode/harness.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { ofType } from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { type AgentBench, openBench, SUMS } from "./agentBench.ts";
import { outcomesOf } from "./told.ts";

/** `plans`: whether its default model is offered a tool for plans. */
const AGENTS: readonly [AgentId, { readonly harness: unknown; readonly plans: boolean }][] = [
  ["claude", { harness: claude, plans: false }],
  ["codex", { harness: codex, plans: true }],
  ["opencode", { harness: opencode, plans: true }],
  ["gemini", { harness: gemini, plans: false }],
];

/** As a new user runs them: the scripted model, and no model named. It offers other tools than a named one may. */
describe.each(AGENTS)("%s with its default model", (id, { harness, plans }) => {
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
});
