import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { SluiceEvent, SpoolLine, Usage } from "../../../src/contract/index.ts";
import { claude } from "../../../src/harness/claude/harness.ts";
import { coverageOf } from "../../../src/harness/coverage.ts";
import type { Harness, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording, recordedContext } from "../../../src/harness/recording.ts";
import { requireAgent } from "../../support/agents.ts";
import { ofType } from "../../support/engine.ts";
import { expectItemsClose, expectTurnsEnd } from "../../support/laws.ts";
import { withSample } from "../samples.ts";

const ROOT = join(import.meta.dirname, "../recordings");
const RECORDINGS = ["claude", "claude-2.1.197"].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => `${folder}/${name}`),
);

describe("Claude Code's recordings", () => {
  it.each(RECORDINGS)("%s: nothing unparsed, everything closed, one end per prompt", (name) => {
    const events = eventsOf(name);
    expect(ofType(events, "agent.unparsed")).toEqual([]);
    expectTurnsEnd(events);
    expectItemsClose(events);
    const states = heardPrompts(name);
    expect(ofType(events, "turn.started").filter((event) => event.data.input_ids.length > 0)).toHaveLength(
      states,
    );
  });

  it.each(RECORDINGS)("%s: the text is the model's, with replays once", (name) => {
    const told = ofType(eventsOf(name), "item.delta").filter((event) => event.parent_id === undefined);
    const texts = new Map<string, string>();
    const isText = textItems(eventsOf(name));
    for (const { data } of told) {
      if (isText.has(data.item_id)) texts.set(data.item_id, (texts.get(data.item_id) ?? "") + data.delta);
    }
    expect([...texts.values()]).toEqual(sentTexts(linesOf(name)));
  });

  it.each(RECORDINGS)("%s: the same facts from a state that went through JSON after every line", (name) => {
    const whole = [...decodeRecording(claude as Harness, linesOf(name))].flatMap(({ facts }) => facts);
    let state = claude.initial(recordedContext("claude"));
    const facts: HarnessFact[] = [];
    for (const line of linesOf(name)) {
      const decoded = claude.decode(state, line);
      facts.push(...decoded.facts);
      state = JSON.parse(JSON.stringify(decoded.state));
    }
    expect(facts).toEqual(whole);
  });

  it.each(RECORDINGS)("%s: a turn's requests add up to the CLI's own count", (name) => {
    const results = linesOf(name)
      .map(({ dir, text }) => (dir === "out" && text.includes('"result"') ? JSON.parse(text) : {}))
      .filter(({ type }) => type === "result");
    // A resumed conversation starts with its old count.
    const since = results.map((result) => result.model_usage_since_last_result ?? {});
    const last =
      results.at(-1)?.model_usage_since_last_result === undefined
        ? [results.at(-1)?.modelUsage ?? {}]
        : since;
    const models = last.flatMap((perModel) =>
      Object.values(perModel as Record<string, Record<string, number>>),
    );
    const usages = ofType(eventsOf(name), "model.ended").map((event) => event.data.usage ?? {});
    const sum = (key: keyof Usage): number => usages.reduce((total, usage) => total + (usage[key] ?? 0), 0);
    const count = (key: string): number => models.reduce((total, model) => total + (model[key] ?? 0), 0);
    // The CLI does not count interrupted requests, though the model has reported their input.
    expect(sum("input_tokens")).toBeGreaterThanOrEqual(count("inputTokens"));
    if (/interrupt_streaming|garbage/.test(name)) return;
    expect(sum("input_tokens")).toBe(count("inputTokens"));
    expect(sum("output_tokens")).toBe(count("outputTokens"));
    expect(sum("cache_read_tokens")).toBe(count("cacheReadInputTokens"));
    expect(sum("cost_usd")).toBeCloseTo(count("costUSD"), 9);
  });
});

describe("the events of the recordings", () => {
  it("tells failures by their cause, though the CLI calls them a success", () => {
    expect(endOf("error_401")).toMatchObject({ stop_reason: "model_error", error: { code: "unauthorized" } });
    expect(endOf("error_429_terminal")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "rate_limited", retryable: true },
    });
    expect(endOf("error_connection_refused")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "network" },
    });
    expect(endOf("error_prompt_too_long")).toMatchObject({
      status: "failed",
      stop_reason: "end_turn",
      error: { code: "context_length" },
    });
    expect(endOf("malformed_stream_cut")).toMatchObject({ error: { code: "network" } });
    expect(endOf("resume_4_unknown_session")).toMatchObject({ error: { code: "conversation_not_found" } });
    expect(endOf("refusal")).toMatchObject({ status: "completed", stop_reason: "refusal" });
    expect(endOf("interrupt_tool")).toMatchObject({ status: "interrupted" });
    expect(endOf("sigterm_streaming")).toMatchObject({ status: "failed", stop_reason: "agent_exited" });
  });

  it("keeps an error message of the CLI out of the agent's mouth", () => {
    for (const name of ["error_401", "error_429_terminal", "refusal", "malformed_stream_cut"]) {
      const items = ofType(eventsOf(`claude/${name}.jsonl`), "item.completed").filter(
        ({ data }) => data.item.kind === "message",
      );
      expect(JSON.stringify(items)).not.toContain("API Error");
    }
  });

  it("holds a turn until its background sub-agent has come back and been answered", () => {
    const events = eventsOf("claude/subagent.jsonl");
    expect(ofType(events, "turn.ended")).toHaveLength(1);
    const call = ofType(events, "item.completed").find(({ data }) =>
      JSON.stringify(data).includes('"Agent"'),
    );
    const nested = events.filter((event) => event.parent_id === call?.data.item.item_id);
    expect(nested.filter(({ type }) => type === "item.completed")).toHaveLength(5);
    const result = ofType(events, "item.completed").find(
      ({ data: { item } }) => item.kind === "tool_result" && item.parent_id === call?.data.item.item_id,
    );
    expect(result?.data.item).toMatchObject({
      status: "completed",
      content: [{ output: "All done. The scripted run is finished." }],
    });
  });

  it("shows the text before a cut once", () => {
    const messages = ofType(eventsOf("claude/malformed_stream_cut_once.jsonl"), "item.completed")
      .map(({ data }) => data.item)
      .filter(({ role, kind }) => role === "assistant" && kind === "message");
    expect(messages).toMatchObject([
      { status: "completed", content: [{ text: "This sentence survives on the second attempt." }] },
    ]);
  });

  it("has the files, diffs, plans, compactions and asks", () => {
    const edited = JSON.stringify(eventsOf("claude/edit.jsonl"));
    expect(edited).toContain("@@ -1,1 +1,1 @@\\n-hello world\\n+hello edited world\\n");
    expect(JSON.stringify(eventsOf("claude/write.jsonl"))).toContain('"action":"write"');
    const [plan] = ofType(eventsOf("claude/todo.jsonl"), "plan.updated");
    expect(plan?.data.entries).toEqual([{ content: "Read the code", status: "pending", priority: "medium" }]);
    const [compacted] = ofType(eventsOf("claude/compact.jsonl"), "context.compacted");
    expect(compacted?.data).toMatchObject({
      trigger: "manual",
      summary: expect.stringContaining("continued"),
    });
    const [question] = ofType(eventsOf("claude/ask_user_question.jsonl"), "question.resolved");
    expect(question?.data).toMatchObject({ status: "answered", options: ["Red", "Blue"] });
    const replies = ofType(eventsOf("claude/bash_allow_always.jsonl"), "permission.resolved");
    expect(replies[0]?.data).toMatchObject({ status: "approved", action: "Bash" });
    const [withdrawn] = ofType(
      eventsOf("claude/interrupt_while_permission_pending.jsonl"),
      "permission.resolved",
    );
    expect(withdrawn?.data).toMatchObject({ status: "denied", metadata: { by: "agent" } });
    const retries = ofType(eventsOf("claude/retry_529.jsonl"), "turn.retrying");
    expect(retries[0]?.data).toMatchObject({ attempt: 1, error: { code: "overloaded" } });
  });
});

describe("Claude Code's coverage", () => {
  it("is all that the CLI can do", ({ skip }) => {
    const { reason } = requireAgent("claude");
    if (reason !== undefined) return skip(reason);
    const missing = Object.entries(coverageOf(withSample(claude as Harness))).flatMap(([name, has]) =>
      has ? [] : [name],
    );
    expect(missing).toEqual([]);
  });
});

function textOf(name: string): string {
  return readFileSync(join(ROOT, name), "utf8");
}

function linesOf(name: string): SpoolLine[] {
  return parseRecording(textOf(name));
}

function eventsOf(name: string): SluiceEvent[] {
  return [...decodeEvents(claude as Harness, textOf(name), "session")].map(({ body }) => JSON.parse(body));
}

function endOf(scenario: string): unknown {
  return ofType(eventsOf(`claude/${scenario}.jsonl`), "turn.ended").at(-1)?.data;
}

function heardPrompts(name: string): number {
  let state = claude.initial(recordedContext("claude"));
  let prompts = 0;
  for (const line of linesOf(name)) {
    if (claude.overhear?.(state, line)?.type === "prompt") prompts += 1;
    ({ state } = claude.decode(state, line));
  }
  return prompts;
}

function textItems(events: readonly SluiceEvent[]): Set<string> {
  const started = ofType(events, "item.started").filter(
    ({ data: { item } }) =>
      item.kind === "message" && item.role === "assistant" && item.content[0]?.type === "text",
  );
  return new Set(started.map(({ data }) => data.item.item_id));
}

/** The model's texts to the main agent. Of a text that was cut and repeated, the last. */
function sentTexts(lines: readonly SpoolLine[]): string[] {
  const texts = new Map<string, string>();
  let message = "";
  for (const { dir, text } of lines) {
    if (dir !== "out" || !text.includes('"stream_event"')) continue;
    const { event, parent_tool_use_id: parent, abandoned_blocks: broken } = JSON.parse(text);
    if (parent !== null) continue;
    if (event.type === "message_start") message = event.message.id;
    const key = `${message}:${event.index}`;
    if (event.delta?.type === "text_delta") texts.set(key, (texts.get(key) ?? "") + event.delta.text);
    const isReplayed = event.type === "message_stop" && broken?.from_block_index === 0;
    if (
      isReplayed &&
      lines.some((line) => line.text.includes("message_start") && isLater(lines, line, text))
    ) {
      for (const name of texts.keys()) if (name.startsWith(`${message}:`)) texts.delete(name);
    }
  }
  return [...texts.values()];
}

function isLater(lines: readonly SpoolLine[], line: SpoolLine, than: string): boolean {
  return lines.indexOf(line) > lines.findIndex(({ text }) => text === than);
}
