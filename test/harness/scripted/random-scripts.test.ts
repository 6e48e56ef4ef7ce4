import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { HarnessFact } from "../../../src/harness/port.ts";
import { openLab } from "../../scripted-agent/lab.ts";
import { expectLegal } from "./decoding.ts";

const lab = openLab();

describe("random scripts, performed by the real agent", () => {
  const text = fc.string({ unit: "grapheme", maxLength: 30 });
  const tool = fc.oneof(
    fc.constantFrom(
      { shell: "echo a; echo b >&2" },
      { shell: "exit 4" },
      { read: "nothing" },
      { read: "w" },
      { delete: "w" },
      { edit: { path: "w", old: "a", new: "b" } },
    ),
    text.map((content) => ({ write: { path: "w", content } })),
  );
  const { step } = fc.letrec((tie) => ({
    step: fc.oneof(
      { maxDepth: 2 },
      text.map((say) => ({ say })),
      fc.record({ say: text, chunks: fc.integer({ min: 1, max: 9 }) }),
      text.map((think) => ({ think })),
      tool,
      fc.constantFrom({ compact: true }, { usage: { input_tokens: 3 } }, { raw: "noise" }, { sleep: 1 }),
      fc.record({ events: fc.nat(300), bytes: fc.nat(20) }).map((flood) => ({ flood })),
      fc.array(tool, { maxLength: 3 }).map((parallel) => ({ parallel })),
      fc.constant({ plan: [{ content: "p" }] }),
      fc.array(tie("step"), { maxLength: 3 }).map((steps) => ({ subagent: { name: "s", steps } })),
    ),
  }));

  it("close every open item once, and deltas add up to the completed text", async () => {
    const agent = await lab.start();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
        const from = agent.facts.length;
        await agent.turn(steps);
        expectTidy(agent.facts.slice(from));
      }),
      { numRuns: 60 },
    );
  });
});

function expectTidy(facts: readonly HarnessFact[]): void {
  expectLegal(facts);
  const open = new Map<string, string>();
  const completed = new Set<string>();
  const requests = new Set<string>();
  for (const fact of facts) {
    if (fact.type === "item.started") open.set(fact.data.item.item_id, "");
    if (fact.type === "item.delta") {
      const before = open.get(fact.data.item_id);
      if (before === undefined) throw new Error(`a delta outside of item ${fact.data.item_id}`);
      open.set(fact.data.item_id, before + fact.data.delta);
    }
    if (fact.type === "model.started") requests.add(fact.data.request_id);
    if (fact.type === "model.ended") expect(requests.delete(fact.data.request_id)).toBe(true);
    if (fact.type !== "item.completed") continue;
    const { item } = fact.data;
    expect(open.has(item.item_id), `item ${item.item_id} is open`).toBe(true);
    expect(completed.has(item.item_id)).toBe(false);
    completed.add(item.item_id);
    const [part] = item.content;
    if (part?.type === "text" || part?.type === "reasoning") expect(part.text).toBe(open.get(item.item_id));
    if (part?.type === "tool_result" && open.get(item.item_id) !== "") {
      expect(part.output).toBe(open.get(item.item_id));
    }
    open.delete(item.item_id);
  }
  expect([...open.keys()]).toEqual([]);
  expect([...requests]).toEqual([]);
  expect(facts.filter((fact) => fact.type === "turn.ended")).toHaveLength(1);
  expect(facts.at(-1)?.type).toBe("turn.ended");
}
