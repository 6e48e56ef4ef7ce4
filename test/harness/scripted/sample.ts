import type { SpoolLine } from "../../../src/contract/index.ts";
import type { AgentCommand, AgentLine } from "../../../src/scripted-agent/protocol.ts";

const entries = [
  { content: "Look", status: "completed" as const, priority: "medium" as const },
  { content: "Answer", status: "in_progress" as const, priority: "high" as const },
];
const usage = { input_tokens: 12, output_tokens: 34 };

/** One turn with every kind of line from the agent and to it. */
const conversation: readonly (AgentLine | AgentCommand)[] = [
  { type: "session", id: "sample", resumed: false },
  { type: "prompt", id: "inp_1", text: "Hello" },
  { type: "turn.started", turn: 1 },
  { type: "model.started", id: "req_1", model: "scripted" },
  { type: "model.failed", id: "req_1", kind: "overloaded", message: "Overloaded.", retryable: true },
  { type: "retry" },
  { type: "model.started", id: "req_2", model: "scripted" },
  { type: "plan", id: "plan_1", entries },
  { type: "thinking.started", id: "tht_1" },
  { type: "thinking.delta", id: "tht_1", text: "Hm." },
  { type: "thinking.ended", id: "tht_1", text: "Hm." },
  { type: "tool.called", id: "call_1", name: "shell", input: { command: "echo hi" } },
  { type: "model.ended", id: "req_2", usage, estimated: false },
  { type: "permission.asked", id: "perm_1", call: "call_1", name: "shell", input: { command: "echo hi" } },
  { type: "permission", id: "perm_1", reply: "once" },
  { type: "tool.started", id: "call_1" },
  { type: "tool.output", id: "call_1", text: "hi\n" },
  { type: "tool.ended", id: "call_1", output: "hi\n", failed: false, exit_code: 0 },
  { type: "tool.called", id: "call_2", name: "edit", input: { path: "a", old: "x", new: "y" } },
  { type: "tool.started", id: "call_2" },
  {
    type: "tool.ended",
    id: "call_2",
    output: "Edited a",
    failed: false,
    file: { path: "a", action: "patch", diff: "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n" },
  },
  { type: "tool.called", id: "call_3", name: "mcp__docs__search", input: {} },
  { type: "tool.started", id: "call_3" },
  { type: "tool.ended", id: "call_3", output: "found", failed: false },
  { type: "tool.called", id: "call_4", name: "weather", input: {} },
  { type: "tool.asked", id: "treq_1", call: "call_4", name: "weather", input: {} },
  { type: "tool_result", id: "treq_1", output: "sunny" },
  { type: "tool.ended", id: "call_4", output: "sunny", failed: false },
  { type: "question.asked", id: "ques_1", prompt: "Which?", options: ["a", "b"] },
  { type: "answer", id: "ques_1", answers: [["a"]] },
  { type: "tool.called", id: "call_5", name: "subagent", input: { name: "r" } },
  { type: "tool.started", id: "call_5" },
  { type: "text.started", id: "msg_1", parent: "call_5" },
  { type: "text.delta", id: "msg_1", text: "Nested." },
  { type: "text.ended", id: "msg_1", text: "Nested." },
  { type: "tool.ended", id: "call_5", output: "Nested.", failed: false },
  { type: "compacted", id: "cmp_1", trigger: "script", summary: "1 user message so far." },
  { type: "image", id: "img_1", data: "AA==", mime: "image/png" },
  { type: "error", code: "mcp_connection_failed", message: "The server cannot be reached." },
  { type: "turn.ended", turn: 1, stop_reason: "end_turn" },
];

const COMMANDS = new Set(["prompt", "permission", "answer", "tool_result", "interrupt", "retry"]);

export const sample: readonly SpoolLine[] = conversation.map((line, at) => ({
  dir: COMMANDS.has(line.type) ? "in" : "out",
  text: JSON.stringify(line),
  at,
}));
