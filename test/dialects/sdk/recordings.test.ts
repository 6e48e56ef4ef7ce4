import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import type { SessionUpdate } from "../../../src/dialects/sdk/events.ts";
import {
  decodeRecording,
  ofKind,
  outputsOf,
  reasonsOf,
  recordingsOf,
  project,
  textOf,
  updatesOf,
} from "./emitted.ts";

const AGENTS = ["claude", "codex", "opencode", "gemini", "grok"];
const ALL = AGENTS.flatMap((agent) => recordingsOf(agent).map((name) => [agent, name] as const));
const KINDS = new Set<SessionUpdate["sessionUpdate"]>([
  "agent_message_chunk",
  "agent_thought_chunk",
  "user_message_chunk",
  "tool_call",
  "tool_call_update",
  "plan",
]);
const STATUSES = ["pending", "in_progress", "completed", "failed"];
const TOOL_KINDS = [
  "read",
  "edit",
  "delete",
  "move",
  "search",
  "execute",
  "think",
  "fetch",
  "switch_mode",
  "other",
];

const run = (agent: string, name: string): SessionUpdate[] =>
  updatesOf(project(decodeRecording(agent, name)));

describe.each(ALL)("the recording %s/%s", (agent, name) => {
  const events = decodeRecording(agent, name);
  const emitted = project(events);
  const updates = updatesOf(emitted);

  it("has the six kinds alone, in the page's shapes (EV-22, EV-41)", () => {
    for (const update of updates) {
      expect(KINDS.has(update.sessionUpdate)).toBe(true);
      if ("status" in update && update.status !== undefined) expect(STATUSES).toContain(update.status);
      if (update.sessionUpdate === "tool_call") expect(TOOL_KINDS).toContain(update.kind);
      for (const part of ("content" in update && Array.isArray(update.content) && update.content) || []) {
        expect(["content", "diff"]).toContain(part.type);
        if (part.type === "diff") expect(typeof part.newText).toBe("string");
      }
    }
  });

  it("has each call before its updates and its end (EV-36)", () => {
    const called = new Set<string>();
    const open = new Set<string>();
    for (const update of updates) {
      if (update.sessionUpdate === "tool_call") {
        called.add(update.toolCallId);
        open.add(update.toolCallId);
      }
      if (update.sessionUpdate !== "tool_call_update") continue;
      expect(called).toContain(update.toolCallId);
      if (update.status === "completed" || update.status === "failed") open.delete(update.toolCallId);
    }
    expect([...open]).toEqual([]);
  });

  it("has the whole text of the agent and none of its sub-agents (EV-47, weakness 6)", () => {
    const texts = (part: "text" | "reasoning"): string =>
      events
        .flatMap((event) =>
          event.type === "item.completed" && event.data.item.parent_id === undefined ? [event.data.item] : [],
        )
        .filter((item) => item.kind === "message" && item.role === "assistant")
        .flatMap((item) => item.content)
        .map((content) => (content.type === part ? content.text : ""))
        .join("");
    expect(textOf(updates, "agent_message_chunk")).toBe(texts("text"));
    expect(textOf(updates, "agent_thought_chunk")).toBe(texts("reasoning"));
  });

  it("ends each run with its terminal event and no later content (weakness 2)", () => {
    const ends = new Set<string>(["run_complete", "run_failed", "run_interrupted"]);
    const starts = reasonsOf(emitted).filter((reason) => reason === "run_start");
    expect(reasonsOf(emitted).filter((reason) => ends.has(reason))).toHaveLength(starts.length);
    let isRunning = false;
    for (const part of emitted) {
      if (part.type === "lifecycle" && part.event.reason === "run_start") isRunning = true;
      if (part.type === "lifecycle" && ends.has(part.event.reason)) isRunning = false;
      if (part.type === "content" && part.event.update.sessionUpdate !== "plan") expect(isRunning).toBe(true);
    }
  });

  it("is the same when projected again (purity)", () => {
    expect(project(JSON.parse(JSON.stringify(events)) as SluiceEvent[])).toEqual(emitted);
  });
});

describe("the work of the agents", () => {
  it("Claude: read, edit and write with titles, locations and the real texts (EV-42, EV-43)", () => {
    const [read, edit] = ofKind(run("claude", "edit"), "tool_call");
    expect(read).toMatchObject({
      title: "Read /tmp/ws/hello.txt",
      kind: "read",
      status: "pending",
      locations: [{ path: "/tmp/ws/hello.txt" }],
      rawInput: { file_path: "/tmp/ws/hello.txt" },
    });
    const diff = {
      type: "diff",
      path: "/tmp/ws/hello.txt",
      oldText: "hello world",
      newText: "hello edited world",
    };
    expect(edit).toMatchObject({ title: "Edit `/tmp/ws/hello.txt`", kind: "edit", content: [diff] });
    const done = ofKind(run("claude", "edit"), "tool_call_update").at(-1);
    expect(done?.content?.[0]).toMatchObject({ oldText: "hello world\n", newText: "hello edited world\n" });
    const [write] = ofKind(run("claude", "write"), "tool_call");
    expect(write?.content).toEqual([
      { type: "diff", path: "/tmp/ws/hello.txt", oldText: null, newText: "hello world\n" },
    ]);
  });

  it("Codex: file changes with the real texts, a session id, output that streams (weakness 5)", () => {
    const edit = ofKind(run("codex", "app_edit"), "tool_call").find(({ kind }) => kind === "edit");
    expect(edit?.content).toEqual([
      { type: "diff", path: "/tmp/ws/hello.txt", oldText: "hello world\n", newText: "hello edited world\n" },
    ]);
    const write = ofKind(run("codex", "app_write"), "tool_call").find(({ kind }) => kind === "edit");
    expect(write?.content).toEqual([
      { type: "diff", path: "/tmp/ws/hello.txt", oldText: null, newText: "hello world\n" },
    ]);
    const outputs = outputsOf(project(decodeRecording("codex", "app_edit")));
    expect(outputs.length).toBeGreaterThan(0);
    for (const { sessionId } of outputs) expect(sessionId).toBeTypeOf("string");
  });

  it("Codex: a failed command is failed, and a declined one too (EV-37)", () => {
    const update = ofKind(run("codex", "app_bash_fails"), "tool_call_update").at(-1);
    expect(update).toMatchObject({ status: "failed", content: [{ content: { text: "oops\n" } }] });
  });

  it("thoughts of Claude and reasoning of OpenCode (EV-34)", () => {
    expect(textOf(run("claude", "thinking"), "agent_thought_chunk")).not.toBe("");
    expect(textOf(run("opencode", "serve_thinking"), "agent_thought_chunk")).not.toBe("");
  });

  it("the user's message from agents that echo it: Gemini alone (EV-35)", () => {
    expect(ofKind(run("gemini", "acp_text"), "user_message_chunk")).toHaveLength(1);
    for (const [agent, name] of [
      ["claude", "text"],
      ["codex", "app_text"],
      ["opencode", "serve_text"],
    ] as const)
      expect(ofKind(run(agent, name), "user_message_chunk")).toEqual([]);
  });

  it.each([
    ["claude", "todo"],
    ["codex", "app_todo"],
    ["opencode", "serve_todo"],
    ["grok", "acp_todo"],
  ])("%s: a plan is the whole list each time, and no tool call beside it (EV-38)", (agent, name) => {
    if (!recordingsOf(agent).includes(name)) return;
    const updates = run(agent, name);
    const plans = ofKind(updates, "plan");
    expect(plans.length).toBeGreaterThan(0);
    for (const { entries } of plans) {
      for (const entry of entries) {
        expect(entry.content).toBeTypeOf("string");
        expect(["pending", "in_progress", "completed"]).toContain(entry.status);
        expect(["high", "medium", "low"]).toContain(entry.priority);
      }
    }
    expect(ofKind(updates, "tool_call").filter(({ title }) => /todo|taskcreate/i.test(title))).toEqual([]);
  });

  it.each([
    ["claude", "mcp_tool"],
    ["codex", "app_mcp_tool"],
    ["opencode", "serve_mcp_tool"],
    ["gemini", "acp_mcp_tool"],
    ["grok", "acp_mcp_tool"],
  ])("%s: a tool of an MCP server is `server: tool`, of kind other (EV-40)", (agent, name) => {
    const call = ofKind(run(agent, name), "tool_call").find(({ kind }) => kind === "other");
    expect(call).toMatchObject({ title: "tiny: add" });
  });

  it("a sub-agent's messages belong to its call (weakness 6)", () => {
    const updates = run("claude", "subagent");
    const task = ofKind(updates, "tool_call").find(({ kind }) => kind === "think");
    expect(task?.title).toBe("Say hello");
    const emitted = ofKind(updates, "tool_call_update").filter(
      ({ toolCallId }) => toolCallId === task?.toolCallId,
    );
    expect(emitted.some(({ status, content }) => status === "in_progress" && content !== undefined)).toBe(
      true,
    );
  });

  it.each([
    ["claude", "error_401"],
    ["codex", "app_error_400"],
    ["gemini", "acp_error_400"],
    ["opencode", "serve_error_400"],
  ])(
    "%s: a failure is run_failed with words on stderr, and no message (EV-48, weakness 4)",
    (agent, name) => {
      if (!recordingsOf(agent).includes(name)) return;
      const emitted = project(decodeRecording(agent, name));
      expect(reasonsOf(emitted).findLast((reason) => reason.startsWith("run_"))).toBe("run_failed");
      const stderr = emitted.flatMap((part) => (part.type === "stderr" ? [part.chunk] : [])).join("");
      expect(stderr.trim()).not.toBe("");
      expect(textOf(updatesOf(emitted), "agent_message_chunk")).not.toContain(stderr.trim());
    },
  );
});
