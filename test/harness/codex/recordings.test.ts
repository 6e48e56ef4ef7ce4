import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode/decodeEvents.ts";
import type { EventOf, SluiceEvent, SpoolLine } from "../../../src/contract/index.ts";
import { codex } from "../../../src/harness/codex/harness.ts";
import { coverageOf, FEATURES } from "../../../src/harness/coverage.ts";
import type { Harness, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording, recordedContext } from "../../../src/harness/recording.ts";
import { requireAgent } from "../../support/agents.ts";
import { ofType } from "../../support/engine.ts";
import { assistantTexts, expectItemsClose, expectTurnsEnd } from "../../support/laws.ts";

const FOLDER = join(import.meta.dirname, "../recordings/codex");
const RECORDINGS = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => name.replace(".jsonl", ""));

describe("Codex's recordings", () => {
  it.each(RECORDINGS)("%s: nothing unparsed, everything closed, one end per prompt", (name) => {
    const events = eventsOf(name);
    expect(ofType(events, "agent.unparsed")).toEqual([]);
    expectTurnsEnd(events);
    expectItemsClose(events);
    const prompts = messagesOf(name, "in").filter(({ method }) => method === "turn/start");
    const asked = ofType(events, "turn.started").filter((event) => event.data.input_ids.length > 0);
    if (name.startsWith("app_")) expect(asked).toHaveLength(prompts.length);
  });

  it.each(RECORDINGS)("%s: the text is what the model sent, replays once", (name) => {
    const told = ofType(eventsOf(name), "item.completed")
      .filter((event) => event.parent_id === undefined && event.data.item.parent_id === undefined)
      .flatMap(({ data }) => (data.item.role === "assistant" ? data.item.content : []))
      .flatMap((part) => (part.type === "text" || part.type === "reasoning" ? [part.text] : []));
    expect(told).toEqual(name.startsWith("exec_") ? execTexts(name) : appTexts(name));
  });

  it.each(RECORDINGS)("%s: the deltas of each text add up to it", (name) => {
    const streamed = new Map<string, string>();
    for (const event of eventsOf(name)) {
      if (event.type === "item.delta") {
        streamed.set(event.data.item_id, (streamed.get(event.data.item_id) ?? "") + event.data.delta);
      }
      if (event.type !== "item.completed" || event.data.item.kind !== "message") continue;
      const { item } = event.data;
      const text = item.content.map((part) => ("text" in part ? part.text : "")).join("");
      if (item.role === "assistant") expect(streamed.get(item.item_id) ?? "").toBe(text);
    }
  });

  it.each(RECORDINGS)("%s: the same facts from a state that went through JSON after every line", (name) => {
    const whole = [...decodeRecording(codex as Harness, linesOf(name))].flatMap(({ facts }) => facts);
    let state = codex.initial(recordedContext("codex"));
    const facts: HarnessFact[] = [];
    for (const line of linesOf(name)) {
      const decoded = codex.decode(state, line);
      facts.push(...decoded.facts);
      state = JSON.parse(JSON.stringify(decoded.state));
    }
    expect(facts).toEqual(whole);
  });

  it.each(RECORDINGS.filter((name) => name.startsWith("app_")))(
    "%s: a thread's requests add up to Codex's own count of its turns",
    (name) => {
      const counts = messagesOf(name, "out")
        .filter(({ method }) => method === "thread/tokenUsage/updated")
        .map(({ params }) => params as UsageNote);
      const turns = new Set(
        messagesOf(name, "out").flatMap(({ method, params }) =>
          method === "turn/started" ? [(params as { turn: { id: string } }).turn.id] : [],
        ),
      );
      const sent = counts.filter(({ turnId }) => turns.has(turnId)).map(({ tokenUsage }) => tokenUsage.last);
      const usages = ofType(eventsOf(name), "model.ended").map((event) => event.data.usage ?? {});
      const sum = (...keys: (keyof (typeof usages)[number])[]): number =>
        usages.reduce((all, usage) => all + keys.reduce((one, key) => one + (usage[key] ?? 0), 0), 0);
      const count = (key: keyof Counts): number => sent.reduce((all, usage) => all + usage[key], 0);
      expect(sum("input_tokens", "cache_read_tokens", "cache_write_tokens")).toBe(count("inputTokens"));
      expect(sum("output_tokens", "reasoning_tokens")).toBe(count("outputTokens"));
      expect(sum("cache_read_tokens")).toBe(count("cachedInputTokens"));
      expect(sum("reasoning_tokens")).toBe(count("reasoningOutputTokens"));
    },
  );
});

describe("what Codex's recordings say", () => {
  it("tells failures by their cause", () => {
    expect(endOf("app_error_400")).toMatchObject({
      status: "failed",
      stop_reason: "end_turn",
      error: { code: "invalid_request", message: "Scripted 400 invalid_request_error" },
    });
    expect(endOf("app_error_context_length")).toMatchObject({
      stop_reason: "end_turn",
      error: { code: "context_length" },
    });
    expect(endOf("app_error_500_terminal")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "server_error", retryable: true },
    });
    expect(endOf("exec_error_500_terminal")).toMatchObject({ stop_reason: "retries_exhausted" });
    expect(endOf("app_malformed_stream_cut")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "network" },
    });
    expect(endOf("app_max_tokens")).toMatchObject({ status: "completed", stop_reason: "max_tokens" });
    for (const name of ["app_error_400", "app_error_500_terminal", "exec_error_500_terminal"]) {
      expect(ofType(eventsOf(name), "error")).toHaveLength(1);
    }
  });

  it("shows Codex's own retries with their place in the row", () => {
    const retries = ofType(eventsOf("app_error_500_terminal"), "turn.retrying").map(({ data }) => data);
    expect(retries.map(({ attempt, max_attempts: most }) => [attempt, most])).toEqual([
      [1, 3],
      [2, 3],
      [3, 3],
    ]);
    expect(ofType(eventsOf("exec_error_500_terminal"), "turn.retrying")).toHaveLength(3);
    expect(ofType(eventsOf("app_retry_429"), "turn.retrying")).toMatchObject([
      { data: { error: { code: "rate_limited" } } },
    ]);
  });

  it("closes what an interrupt leaves open, and goes on", () => {
    const events = eventsOf("app_interrupt_streaming");
    expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual(["interrupted", "completed"]);
    expect(ofType(events, "interrupt.requested")).toHaveLength(1);
    expect(assistantTexts(events)[0]).toBe("word0 word1 word2 word3 word4 word5 ");
    expect(endOf("app_interrupt_tool")).toMatchObject({ status: "interrupted" });
  });

  it("knows who was asked what, and what came of it", () => {
    const [allowed] = ofType(eventsOf("app_approval_allowed"), "permission.requested");
    expect(allowed?.data).toMatchObject({
      action: "exec_command",
      metadata: { kind: "execute", call_id: "call_fake0235", suggestions: [expect.anything()] },
    });
    const decided = (name: string): string[] =>
      ofType(eventsOf(name), "permission.resolved").map(({ data }) => data.status);
    expect(decided("app_approval_allowed")).toEqual(["approved"]);
    expect(decided("app_approval_declined")).toEqual(["denied"]);
    expect(decided("app_approval_cancelled")).toEqual(["denied"]);
    expect(decided("app_mcp_tool")).toEqual(["approved"]);
    const [patch] = ofType(eventsOf("app_write_approval_allowed"), "permission.requested");
    expect(patch?.data).toMatchObject({
      action: "apply_patch",
      metadata: { kind: "edit", input: { changes: [{ path: "/tmp/ws/hello.txt" }] } },
    });
    const [mcp] = ofType(eventsOf("app_mcp_tool"), "permission.requested");
    expect(mcp?.data).toMatchObject({
      action: "mcp__tiny__add",
      metadata: { kind: "mcp", call_id: "call_fake0478", input: { a: 2, b: 40 } },
    });
    expect(ofType(eventsOf("app_plan_mode_ask"), "question.resolved")).toMatchObject([
      { data: { prompt: "Which colour should I use?", options: ["Red", "Blue"], response: "Blue" } },
    ]);
    expect(ofType(eventsOf("app_dynamic_tool"), "tool.resolved")).toMatchObject([
      { data: { name: "no_such_tool", status: "completed" } },
    ]);
  });

  it("gives commands, patches and MCP calls their results", () => {
    expect(resultsOf("app_bash_fails")).toMatchObject([
      { status: "failed", content: [{ output: "oops\n" }, { type: "json", json: { exit_code: 3 } }] },
    ]);
    expect(resultsOf("app_edit")).toMatchObject([
      {
        content: [
          { output: "hello world\n" },
          { type: "file_ref", action: "read", path: "/tmp/ws/hello.txt" },
        ],
      },
      {
        content: [
          { type: "tool_result" },
          {
            type: "file_ref",
            action: "patch",
            diff: "--- a/tmp/ws/hello.txt\n+++ b/tmp/ws/hello.txt\n@@ -1 +1 @@\n-hello world\n+hello edited world\n",
          },
        ],
      },
    ]);
    expect(resultsOf("app_write")).toMatchObject([
      {
        content: [
          { type: "tool_result" },
          {
            type: "file_ref",
            action: "write",
            diff: "--- /dev/null\n+++ b/tmp/ws/hello.txt\n@@ -0,0 +1 @@\n+hello world\n",
          },
        ],
      },
    ]);
    expect(resultsOf("app_mcp_tool")).toMatchObject([{ status: "completed", content: [{ output: "42" }] }]);
    expect(resultsOf("exec_mcp_tool")).toMatchObject([{ status: "failed" }]);
  });

  it("puts a sub-agent's words under the call that made it, also when the turn is over", () => {
    const events = eventsOf("app_subagent");
    const call = ofType(events, "item.completed").find(({ data }) =>
      data.item.content.some((part) => part.type === "tool_call" && part.name === "spawnAgent"),
    );
    const nested = events.filter((event) => event.parent_id === call?.data.item.item_id);
    expect(assistantTexts(nested)).toEqual(["I will run a command."]);
    expect(ofType(events, "turn.ended")[0]?.data).toMatchObject({
      status: "completed",
      stop_reason: "end_turn",
    });
  });

  it("hears what was said into a running turn, and pictures", () => {
    const inputs = ofType(eventsOf("app_steer_mid_turn"), "input.accepted").map(({ data }) => data);
    expect(inputs.map(({ content }) => content)).toEqual([
      [{ type: "text", text: "slow [[scn:bash]]" }],
      [{ type: "text", text: "also this" }],
    ]);
    expect(inputs[0]?.turn_id).toBe(inputs[1]?.turn_id);
    const [picture] = ofType(eventsOf("app_image_prompt"), "input.accepted");
    expect(picture?.data.content[1]).toMatchObject({ type: "image", mime: "image/png" });
  });

  it("does not count again what a resumed conversation had used before", () => {
    expect(endOf("app_resume_2")?.usage).toMatchObject({ input_tokens: 96, cache_read_tokens: 30 });
  });
});

describe("Codex's coverage", () => {
  it("has every feature", ({ skip }) => {
    const { path, reason } = requireAgent("codex");
    if (path === undefined) return skip(reason);
    const coverage = coverageOf(codex as Harness);
    expect(FEATURES.filter((feature) => !coverage[feature])).toEqual([]);
  });
});

interface Counts {
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningOutputTokens: number;
}
interface UsageNote {
  turnId: string;
  tokenUsage: { last: Counts };
}

function textOf(name: string): string {
  return readFileSync(join(FOLDER, `${name}.jsonl`), "utf8");
}

function linesOf(name: string): SpoolLine[] {
  return parseRecording(textOf(name));
}

function eventsOf(name: string): SluiceEvent[] {
  return [...decodeEvents(codex as Harness, textOf(name), "recording")].map(
    ({ body }) => JSON.parse(body) as SluiceEvent,
  );
}

function endOf(name: string): EventOf<"turn.ended">["data"] | undefined {
  return ofType(eventsOf(name), "turn.ended").at(-1)?.data;
}

function resultsOf(name: string) {
  return ofType(eventsOf(name), "item.completed")
    .map(({ data }) => data.item)
    .filter(({ kind }) => kind === "tool_result");
}

type Message = {
  id?: unknown;
  method?: string;
  params?: unknown;
  type?: string;
  item?: { type: string; text?: string };
};

function messagesOf(name: string, dir: SpoolLine["dir"]): Message[] {
  return linesOf(name)
    .filter((line) => line.dir === dir && line.text.startsWith("{"))
    .map((line) => JSON.parse(line.text) as Message);
}

function execTexts(name: string): string[] {
  return messagesOf(name, "out").flatMap(({ type, item }) =>
    type === "item.completed" && (item?.type === "agent_message" || item?.type === "reasoning")
      ? [item.text ?? ""]
      : [],
  );
}

/** What the main thread streamed, item by item; an item that a retry says again counts once. */
function appTexts(name: string): string[] {
  const texts: { id: string; text: string }[] = [];
  let main: string | undefined;
  let replayed: string | undefined;
  for (const { method, params } of messagesOf(name, "out")) {
    const { threadId, itemId, delta } = (params ?? {}) as {
      threadId?: string;
      itemId?: string;
      delta?: string;
    };
    main ??= threadId;
    if (method === "error")
      replayed = (params as { willRetry: boolean }).willRetry ? texts.pop()?.text : undefined;
    if (threadId !== main || itemId === undefined || delta === undefined) continue;
    if (method !== "item/agentMessage/delta" && method !== "item/reasoning/summaryTextDelta") continue;
    const known = texts.find(({ id }) => id === itemId);
    if (known) known.text += delta;
    else texts.push({ id: itemId, text: delta });
  }
  expect(replayed === undefined || (texts.at(-1)?.text ?? "").startsWith(replayed)).toBe(true);
  return texts.map(({ text }) => text);
}
