import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ofType, openLab } from "../lab.ts";

const lab = openLab();

describe("say and think", () => {
  it("says one delta per word, and their concatenation is the text", async () => {
    const text = "  Hello,\twide\n\nworld — 𝄞 music ";
    const { lines } = await lab.perform([{ say: text }]);
    const deltas = ofType(lines, "text.delta").map((line) => line.text);
    expect(deltas).toEqual(["  Hello,", "\twide", "\n\nworld", " —", " 𝄞", " music "]);
    expect(ofType(lines, "text.ended")[0]?.text).toBe(text);
  });

  it.each([
    ["Hello world", 3],
    ["𝄞𝄞𝄞𝄞", 4],
    ["a𝄞b", 2],
  ])("says %j in %d chunks", async (text, chunks) => {
    const { lines } = await lab.perform([{ say: text, chunks }]);
    const deltas = ofType(lines, "text.delta").map((line) => line.text);
    expect(deltas).toHaveLength(chunks);
    expect(deltas.join("")).toBe(text);
    for (const delta of deltas) expect(() => encodeURIComponent(delta)).not.toThrow();
  });

  it("never sends an empty delta, for any number of chunks", async () => {
    const { lines } = await lab.perform([{ say: "hi", chunks: 5 }, { say: "" }]);
    expect(ofType(lines, "text.delta").map((line) => line.text)).toEqual(["h", "i"]);
    expect(ofType(lines, "text.ended").map((line) => line.text)).toEqual(["hi", ""]);
  });

  it("thinks", async () => {
    const { agent, lines } = await lab.perform([{ think: "Let me see" }]);
    expect(ofType(lines, "thinking.ended")[0]?.text).toBe("Let me see");
    const { data } = await agent.fact("item.completed");
    expect(data.item).toMatchObject({
      kind: "message",
      role: "assistant",
      content: [{ type: "reasoning", text: "Let me see", visibility: "public" }],
    });
  });

  it("says every earlier user text, one per line", async () => {
    const agent = await lab.start();
    await agent.turn("first");
    await agent.turn("second");
    const lines = await agent.turn([{ say: "$history" }]);
    expect(ofType(lines, "text.ended")[0]?.text).toBe("first\nsecond");
  });
});

describe("plan, usage, refuse, compact, image", () => {
  it("shows a plan as a whole list, and as a status item", async () => {
    const { agent } = await lab.perform([
      {
        plan: [
          { content: "look", status: "completed", priority: "high" },
          { content: "leap", status: "in_progress", priority: "low" },
          { content: "land" },
        ],
      },
    ]);
    const { data } = await agent.fact("plan.updated");
    expect(data.entries[2]).toEqual({ content: "land", status: "pending", priority: "medium" });
    const { data: shown } = await agent.fact("item.completed");
    expect(shown.item).toMatchObject({
      kind: "status",
      content: [
        { type: "status", label: "plan", detail: "1 of 3 done: leap" },
        { type: "json", json: { entries: data.entries } },
      ],
    });
  });

  it("reports the usage that a script gives, for the current request", async () => {
    const { agent, lines } = await lab.perform([
      { say: "a" },
      { usage: { input_tokens: 7, output_tokens: 9 } },
      { shell: "true" },
      { say: "four" },
    ]);
    const ends = ofType(lines, "model.ended");
    expect(ends[0]).toMatchObject({ usage: { input_tokens: 7, output_tokens: 9 }, estimated: false });
    expect(ends[1]).toMatchObject({ usage: { output_tokens: 1 }, estimated: true });
    const facts = agent.facts.filter((fact) => fact.type === "model.ended");
    expect(facts.map((fact) => fact.data.usage_source)).toEqual(["reported", "estimated"]);
  });

  it("has a model request in every turn, ended before tools run", async () => {
    const { lines } = await lab.perform([{ shell: "true" }]);
    expect(lines.map((line) => line.type)).toEqual([
      "turn.started",
      "model.started",
      "tool.called",
      "model.ended",
      "tool.started",
      "tool.ended",
      "turn.ended",
    ]);
  });

  it("refuses", async () => {
    const { agent } = await lab.perform([{ refuse: "not that" }, { say: "never" }]);
    const { data } = await agent.fact("turn.ended");
    expect(data).toEqual({
      turn_id: "",
      status: "completed",
      stop_reason: "refusal",
      details: { reason: "not that" },
    });
    expect(ofType(agent.said, "text.started")).toEqual([]);
  });

  it("compacts", async () => {
    const { agent } = await lab.perform([{ compact: true }]);
    await agent.fact("context.compacted");
    const { data } = await agent.fact("item.completed");
    expect(data.item).toMatchObject({ kind: "status", content: [{ label: "context compacted" }] });
  });

  it("shows an image", async () => {
    const { agent } = await lab.perform([{ image: { data: "iVBORw0=", mimeType: "image/png" } }]);
    const { data } = await agent.fact("item.completed");
    expect(data.item.content).toEqual([
      { type: "image", path: "data:image/png;base64,iVBORw0=", mime: "image/png" },
    ]);
  });
});

describe("flood", () => {
  it("sends 200,000 deltas in one message, and their sum is its text", async () => {
    const { agent } = await lab.perform([{ flood: { events: 200_000, bytes: 40 } }]);
    const deltas = agent.facts.flatMap((fact) => (fact.type === "item.delta" ? [fact.data.delta] : []));
    expect(deltas).toHaveLength(200_000);
    for (const [index, delta] of deltas.entries()) {
      if (delta.length !== 40 || !delta.startsWith(`${index} `))
        throw new Error(`delta ${index} is ${delta}`);
    }
    const { data } = await agent.fact("item.completed");
    expect(data.item.content).toEqual([{ type: "text", text: deltas.join("") }]);
  });
});

describe("a prompt that is no script", () => {
  it("gets a plan, a thought, a command, a file and an answer that quotes it", async () => {
    const agent = await lab.start();
    const lines = await agent.turn("What is “up”?");
    expect(
      ofType(lines, "plan")
        .at(-1)
        ?.entries.map((entry) => entry.status),
    ).toEqual(Array(3).fill("completed"));
    expect(ofType(lines, "thinking.ended")).toHaveLength(1);
    const [shell] = ofType(lines, "tool.ended");
    expect(shell).toMatchObject({
      failed: false,
      output: execFileSync("sh", ["-c", "uname -s && date +%Y"]).toString(),
    });
    expect(readFileSync(join(agent.workspace, "hello-from-sluice.md"), "utf8")).toContain("What is “up”?");
    expect(ofType(lines, "text.ended").at(-1)?.text).toContain("What is “up”?");
  });
});
