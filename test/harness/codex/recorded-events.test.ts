import { describe, expect, it } from "vitest";
import type { EventOf } from "../../../src/contract/index.ts";
import { ofType } from "../../support/engine.ts";
import { assistantTexts } from "../../support/laws.ts";
import { eventsOf, textOf, toEvents } from "./recorded.ts";

describe("the events of Codex's recordings", () => {
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

  it("numbers Codex's own retries", () => {
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

  it("closes open items at an interrupt, and goes on", () => {
    const events = eventsOf("app_interrupt_streaming");
    expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual(["interrupted", "completed"]);
    expect(ofType(events, "interrupt.requested")).toHaveLength(1);
    expect(assistantTexts(events)[0]).toBe("word0 word1 word2 word3 word4 word5 ");
    expect(endOf("app_interrupt_tool")).toMatchObject({ status: "interrupted" });
  });

  it.each(["after the turn's end", "in the next turn"])(
    "keeps a call closed whose end comes %s",
    (moment) => {
      const lines = textOf("app_interrupt_streaming").trimEnd().split("\n");
      const indexOf = (method: string, from = 0): number =>
        lines.findIndex((line, index) => index >= from && line.includes(`\\"${method}\\"`));
      const ended = indexOf("turn/completed");
      const params = /threadId\\":\\"([^\\]+)\\",\\"turnId\\":\\"([^\\]+)/.exec(
        lines[indexOf("item/started")] ?? "",
      );
      const [, threadId, turnId] = params ?? [];
      expect(turnId).toBeDefined();
      const told = (method: string, item: object): string =>
        JSON.stringify({
          t: 1,
          dir: "out",
          raw: JSON.stringify({ method, params: { item, threadId, turnId } }),
        });
      const search = { type: "webSearch", id: "ws_1", query: "", action: null };
      const command = { type: "commandExecution", id: "cmd_1", command: "ls", cwd: "/", status: "completed" };
      const late = [search, command].map((item) => told("item/completed", item));
      lines.splice(
        moment === "in the next turn" ? indexOf("turn/started", ended) + 1 : ended + 1,
        0,
        ...late,
      );
      lines.splice(
        indexOf("turn/interrupt"),
        0,
        ...[search, command].map((item) => told("item/started", item)),
      );
      const calls = toEvents(lines.join("\n"))
        .filter((event) => event.type === "item.started" && event.data.item.kind === "tool_call")
        .map(({ turn_id }) => turn_id);
      expect(calls).toHaveLength(2);
      expect(new Set(calls).size).toBe(1);
    },
  );

  it("tells requests with their answers and results", () => {
    const [allowed] = ofType(eventsOf("app_approval_allowed"), "permission.requested");
    expect(allowed?.data).toMatchObject({
      action: "exec_command",
      metadata: { kind: "execute", call_id: "call_fake0235", suggestions: [expect.anything()] },
    });
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

  it("tells messages to a running turn, and pictures", () => {
    const inputs = ofType(eventsOf("app_steer_mid_turn"), "input.accepted").map(({ data }) => data);
    expect(inputs.map(({ content }) => content)).toEqual([
      [{ type: "text", text: "slow [[scn:bash]]" }],
      [{ type: "text", text: "also this" }],
    ]);
    expect(inputs[0]?.turn_id).toBe(inputs[1]?.turn_id);
    const [picture] = ofType(eventsOf("app_image_prompt"), "input.accepted");
    expect(picture?.data.content[1]).toMatchObject({ type: "image", mime: "image/png" });
  });

  it("does not count earlier usage of a resumed conversation again", () => {
    expect(endOf("app_resume_2")?.usage).toMatchObject({ input_tokens: 96, cache_read_tokens: 30 });
  });
});

function endOf(name: string): EventOf<"turn.ended">["data"] | undefined {
  return ofType(eventsOf(name), "turn.ended").at(-1)?.data;
}

function resultsOf(name: string) {
  return ofType(eventsOf(name), "item.completed")
    .map(({ data }) => data.item)
    .filter(({ kind }) => kind === "tool_result");
}

function decided(name: string): string[] {
  return ofType(eventsOf(name), "permission.resolved").map(({ data }) => data.status);
}
