import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { EventOf, SluiceEvent, SpoolLine } from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { Harness, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording, recordedContext } from "../../../src/harness/recording.ts";
import { ofType } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";

const FOLDER = join(import.meta.dirname, "../recordings/opencode");
const RECORDINGS = readdirSync(FOLDER).filter((name) => name.endsWith(".jsonl"));
const SERVED = RECORDINGS.filter((name) => name.startsWith("serve_"));

describe("OpenCode's recordings", () => {
  it.each(RECORDINGS)("%s leaves nothing unparsed, and everything that it opens is closed", (name) => {
    const events = eventsOf(name);
    expect(ofType(events, "agent.unparsed")).toEqual([]);
    expectLawful(events);
  });

  it.each(SERVED)("%s has one end for each prompt", (name) => {
    const prompts = linesOf(name).filter(
      ({ dir, text }) => dir === "http-in" && /prompt_async|summarize/.test(text),
    );
    const events = eventsOf(name);
    expect(ofType(events, "turn.started")).toHaveLength(prompts.length);
    expect(ofType(events, "turn.ended")).toHaveLength(prompts.length);
  });

  it.each(SERVED)("%s shows the model's text once", (name) => {
    const messages = ofType(eventsOf(name), "item.completed").filter(({ data, parent_id: parent }) => {
      return parent === undefined && data.item.kind === "message" && data.item.role === "assistant";
    });
    const shown = messages.flatMap(({ data }) =>
      data.item.content.map((part) => ("text" in part ? part.text : "")),
    );
    expect(shown).toEqual(saidIn(linesOf(name)));
  });

  it.each(RECORDINGS)("%s: the deltas of an item add up to it", (name) => {
    const events = eventsOf(name);
    const sums = new Map<string, string>();
    for (const { data } of ofType(events, "item.delta"))
      sums.set(data.item_id, (sums.get(data.item_id) ?? "") + data.delta);
    for (const { data } of ofType(events, "item.completed")) {
      const [part] = data.item.content;
      const sum = sums.get(data.item.item_id);
      if (data.item.role === "user" || data.item.kind === "status" || part === undefined) continue;
      if (part.type === "text" || part.type === "reasoning") expect(sum ?? "").toBe(part.text);
      if (part.type === "tool_result" && sum !== undefined) expect(sum).toBe(part.output);
    }
  });

  it.each(RECORDINGS)("%s: the same facts from a state that went through JSON after every line", (name) => {
    let state = opencode.initial(recordedContext("opencode"));
    const facts: HarnessFact[] = [];
    for (const line of linesOf(name)) {
      const decoded = opencode.decode(state, line);
      facts.push(...decoded.facts);
      state = JSON.parse(JSON.stringify(decoded.state));
    }
    expect(facts).toEqual(factsOf(linesOf(name)));
  });

  it.each(SERVED)("%s reads the same when the bridge says it live", (name) => {
    expect(factsOf(linesOf(name).map(toLive))).toEqual(factsOf(linesOf(name)));
  });

  it.each(SERVED)("%s: sent lines are read back as commands", (name) => {
    let state = opencode.initial(recordedContext("opencode"));
    for (const line of linesOf(name)) {
      const isAbout =
        line.dir === "http-in" &&
        /"path":"[^"]*\/(prompt_async|summarize|abort|reply|reject)"/.test(line.text);
      if (isAbout) expect(opencode.overhear?.(state, line), line.text).toBeDefined();
      state = opencode.decode(state, line).state;
    }
  });

  it("reads the prompt of a run from its command line", () => {
    const [meta] = linesOf("run_bash.jsonl");
    const state = opencode.initial(recordedContext("opencode"));
    const content = [{ type: "text", text: "run [[scn:bash]]" }];
    expect(meta && opencode.overhear?.(state, meta)).toEqual({ type: "prompt", inputId: "", content });
  });
});

describe("the events of a recording", () => {
  it.each([
    ["serve_text", "completed end_turn"],
    ["serve_abort_tool", "interrupted interrupted"],
    ["serve_abort_while_permission_pending", "interrupted interrupted"],
    ["serve_permission_reject", "completed end_turn"],
    ["serve_error_400", "failed end_turn invalid_request"],
    ["serve_error_500_retrying_then_aborted", "failed retries_exhausted server_error"],
    ["serve_error_context_length", "completed end_turn"],
    ["serve_malformed_garbage_sse", "failed end_turn internal"],
    ["serve_malformed_stream_cut", "failed retries_exhausted network"],
    ["serve_malformed_stream_cut_once", "completed end_turn"],
    ["run_error_400", "failed end_turn invalid_request"],
    ["run_permission_auto_rejected", "completed end_turn"],
  ])("%s ends %s", (name, expected) => {
    const [end] = ofType(eventsOf(`${name}.jsonl`), "turn.ended");
    const { status, stop_reason: reason, error } = end?.data ?? {};
    expect([status, reason, error?.code].filter(Boolean).join(" ")).toBe(expected);
  });

  it("a retry says when, why, and that it went on", () => {
    const events = eventsOf("serve_retry_529.jsonl");
    const retries = ofType(events, "turn.retrying").map(({ data }) => [
      data.attempt,
      data.delay_ms,
      data.error.code,
    ]);
    expect(retries).toEqual([
      [1, 2209, "overloaded"],
      [2, 4298, "overloaded"],
    ]);
    expect(ofType(events, "turn.resumed")).toHaveLength(2);
    expect(ofType(events, "model.ended").map(({ data }) => data.error?.code)).toEqual([
      "overloaded",
      "overloaded",
      undefined,
    ]);
  });

  it("a context that was too long is an error, a compaction, and a turn that went on", () => {
    const events = eventsOf("serve_error_context_length.jsonl");
    expect(ofType(events, "error").map(({ data }) => data.code)).toEqual(["context_length"]);
    expect(ofType(events, "context.compacted").map(({ data }) => data.trigger)).toEqual(["overflow"]);
  });

  it("a sub-agent's words are under its call", () => {
    const events = eventsOf("serve_subagent.jsonl");
    const task = callsOf(events).find(({ data }) =>
      data.item.content.some((part) => "name" in part && part.name === "task"),
    );
    const nested = events.filter((event) => event.parent_id !== undefined);
    expect(nested.length).toBeGreaterThan(20);
    expect(new Set(nested.map((event) => event.parent_id))).toEqual(new Set([task?.data.item.item_id]));
  });

  it("an MCP tool has its server's name, an edit its diff, a plan its entries, a permission its answer", () => {
    const names = callsOf(eventsOf("serve_mcp_tool.jsonl")).flatMap(({ data }) =>
      data.item.content.map((part) => "name" in part && part.name),
    );
    expect(names).toEqual(["mcp__tiny__add"]);
    const files = ofType(eventsOf("serve_edit.jsonl"), "item.completed").flatMap(({ data }) =>
      data.item.content.filter(({ type }) => type === "file_ref"),
    );
    expect(files).toEqual([
      { type: "file_ref", path: "/tmp/ws/hello.txt", action: "read" },
      {
        type: "file_ref",
        path: "/tmp/ws/hello.txt",
        action: "patch",
        diff: "--- /tmp/ws/hello.txt\n+++ /tmp/ws/hello.txt\n@@ -1,1 +1,1 @@\n-hello world\n+hello edited world\n",
      },
    ]);
    expect(
      ofType(eventsOf("serve_todo.jsonl"), "plan.updated").map(({ data }) => data.entries.length),
    ).toEqual([3]);
    const answers = ["once", "always", "reject", "reject_with_message"].map((how) => {
      const [resolved] = ofType(eventsOf(`serve_permission_${how}.jsonl`), "permission.resolved");
      const { reply, message, kind } = (resolved?.data.metadata ?? {}) as Record<string, unknown>;
      return [resolved?.data.status, kind, reply, message];
    });
    expect(answers).toEqual([
      ["approved", "execute", "once", undefined],
      ["approved", "execute", "always", undefined],
      ["denied", "execute", "reject", undefined],
      ["denied", "execute", "reject", "Use another command."],
    ]);
  });
});

const LIVE: Partial<Record<SpoolLine["dir"], SpoolLine["dir"]>> = {
  "http-in": "in",
  "http-out": "out",
  sse: "out",
};

function toLive(line: SpoolLine): SpoolLine {
  return { ...line, dir: LIVE[line.dir] ?? line.dir };
}

function linesOf(name: string): SpoolLine[] {
  return parseRecording(readFileSync(join(FOLDER, name), "utf8"));
}

function eventsOf(name: string): SluiceEvent[] {
  const text = readFileSync(join(FOLDER, name), "utf8");
  return [...decodeEvents(opencode as Harness, text, "recorded")].map(
    ({ body }) => JSON.parse(body) as SluiceEvent,
  );
}

function factsOf(lines: readonly SpoolLine[]): HarnessFact[] {
  return [...decodeRecording(opencode as Harness, lines)].flatMap(({ facts }) => facts);
}

function callsOf(events: readonly SluiceEvent[]): EventOf<"item.completed">[] {
  return ofType(events, "item.completed").filter(({ data }) => data.item.kind === "tool_call");
}

interface RecordedPart {
  id: string;
  messageID: string;
  sessionID: string;
  type: string;
  text: string;
}

/** The texts and thoughts of the main session, from its deltas. A text that was repeated counts once. */
function saidIn(lines: readonly SpoolLine[]): string[] {
  const events = lines
    .filter(({ dir }) => dir === "sse")
    .map(({ text }) => JSON.parse(text) as { type: string; properties: Record<string, never> });
  const assistants = new Map<string, { sessionID: string; summary?: boolean }>();
  const texts = new Map<string, string>();
  let main = "";
  for (const { type, properties } of events) {
    const { info, part, partID, delta } = properties as {
      info?: { id: string; role: string; sessionID: string; summary?: boolean };
      part?: RecordedPart;
      partID?: string;
      delta?: string;
    };
    if (type === "message.updated" && info?.role === "user") main ||= info.sessionID;
    if (type === "message.updated" && info?.role === "assistant") assistants.set(info.id, info);
    const message = part && assistants.get(part.messageID);
    const isOurs = message !== undefined && message.sessionID === main && message.summary !== true;
    if (isOurs && (part?.type === "text" || part?.type === "reasoning") && !texts.has(part.id))
      texts.set(part.id, "");
    if (type === "message.part.delta" && partID !== undefined && texts.has(partID))
      texts.set(partID, (texts.get(partID) ?? "") + delta);
  }
  const said = [...texts.values()];
  return said.filter((text, index) => !(said[index + 1] ?? "").startsWith(text));
}
