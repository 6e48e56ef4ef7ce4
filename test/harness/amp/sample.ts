import type { SpoolLine } from "../../../src/contract/index.ts";

const thread = { session_id: "T-2775dc92-90ed-4f85-8b73-8f9766029e83" };
const usage = {
  input_tokens: 12783,
  cache_creation_input_tokens: 367,
  cache_read_input_tokens: 12416,
  output_tokens: 8,
};

function assistant(content: object[], more: { parent?: string; stop?: string } = {}): SpoolLine["text"] {
  const message = {
    type: "message",
    role: "assistant",
    content,
    stop_reason: more.stop ?? "tool_use",
    usage,
  };
  return JSON.stringify({ type: "assistant", message, parent_tool_use_id: more.parent ?? null, ...thread });
}

function user(content: object[], parent: string | null = null): SpoolLine["text"] {
  return JSON.stringify({
    type: "user",
    message: { role: "user", content },
    parent_tool_use_id: parent,
    ...thread,
  });
}

function call(id: string, name: string, input: object): object {
  return { type: "tool_use", id, name, input };
}

function result(id: string, content: unknown, isError = false): object {
  return { type: "tool_result", tool_use_id: id, content, is_error: isError };
}

/** Amp's documented stream and the gate's lines: one turn with every kind of line, then one that fails. */
const conversation: readonly (readonly ["in" | "out", string])[] = [
  [
    "in",
    JSON.stringify({ type: "user", message: { role: "user", content: [{ type: "text", text: "Hello" }] } }),
  ],
  [
    "out",
    JSON.stringify({
      type: "system",
      subtype: "init",
      cwd: "/workspace",
      tools: ["Bash"],
      mcp_servers: [],
      ...thread,
    }),
  ],
  ["out", user([{ type: "text", text: "Hello" }])],
  ["out", assistant([{ type: "thinking", thinking: "Hm." }, call("t1", "Bash", { cmd: "echo hi" })])],
  ["out", JSON.stringify({ type: "permission.asked", id: "ask_1", tool: "Bash", input: { cmd: "echo hi" } })],
  ["in", JSON.stringify({ type: "permission", id: "ask_1", reply: "once" })],
  ["out", user([result("t1", '{"output":"hi\\n","exitCode":0}')])],
  [
    "out",
    assistant([call("t2", "todo_write", { todos: [{ id: "1", content: "Look", status: "in-progress" }] })]),
  ],
  ["out", user([result("t2", "ok")])],
  ["out", assistant([call("t3", "edit_file", { path: "/workspace/a", old_str: "x", new_str: "y" })])],
  ["out", user([result("t3", '{"diff":"```diff\\n--- a\\n+++ a\\n@@ -1 +1 @@\\n-x\\n+y\\n```"}')])],
  ["out", assistant([call("t4", "mcp__docs__search", { q: "x" }), call("t5", "Task", { prompt: "look" })])],
  ["out", assistant([{ type: "text", text: "Nested." }], { parent: "t5", stop: "end_turn" })],
  [
    "out",
    user([
      result("t4", [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } }]),
    ]),
  ],
  ["out", user([result("t5", "Nested.")])],
  ["out", assistant([{ type: "text", text: "Done." }], { stop: "end_turn" })],
  [
    "out",
    JSON.stringify({
      type: "result",
      subtype: "success",
      is_error: false,
      num_turns: 5,
      duration_ms: 9,
      result: "Done.",
      ...thread,
    }),
  ],
  [
    "in",
    JSON.stringify({ type: "user", message: { role: "user", content: [{ type: "text", text: "Again" }] } }),
  ],
  ["out", user([{ type: "text", text: "Again" }])],
  [
    "out",
    JSON.stringify({
      type: "result",
      subtype: "error_during_execution",
      is_error: true,
      error: "Overloaded",
      ...thread,
    }),
  ],
];

export const sample: readonly SpoolLine[] = conversation.map(([dir, text], at) => ({ dir, text, at }));
