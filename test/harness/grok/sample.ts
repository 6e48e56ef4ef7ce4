import type { SpoolLine } from "../../../src/contract/index.ts";
import { answered, chunk, PROMPT, replied, sent, toLines, updated } from "../acp/sample.ts";

const options = [
  { optionId: "always-allow", name: "Always", kind: "allow_always" },
  { optionId: "allow-once", name: "Yes", kind: "allow_once" },
  { optionId: "reject-once", name: "No", kind: "reject_once" },
];
const shell = { toolCallId: "call_1", rawInput: { command: "echo hi" }, ...tool("run_terminal_command") };
const question = { question: "Which?", options: [{ label: "Red" }, { label: "Blue" }], multiSelect: false };
const spawn = {
  toolCallId: "call_4",
  rawInput: { prompt: "Look", description: "Look" },
  ...tool("spawn_subagent"),
};

/** One turn with every kind of message of Grok Build. */
export const sample: readonly SpoolLine[] = toLines([
  sent("initialize", "initialize", { protocolVersion: 1 }),
  answered("initialize", {
    protocolVersion: 1,
    agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {} } },
  }),
  sent("open", "session/new", { cwd: "/workspace", mcpServers: [{ name: "docs" }] }),
  answered("open", { sessionId: "sample", models: { currentModelId: "grok-4.6", availableModels: [] } }),
  ["out", { jsonrpc: "2.0", method: "_x.ai/mcp_initialized", params: { sessionId: "sample" } }],
  sent("inp_1", "session/prompt", PROMPT),
  noted({
    sessionUpdate: "retry_state",
    type: "retrying",
    attempt: 1,
    max_retries: 15,
    reason: "status 500",
  }),
  chunk("thought", "Hm."),
  chunk("message", "I will "),
  chunk("message", "look."),
  noted({
    sessionUpdate: "tool_call_delta_chunk",
    tool_call_id: "call_1",
    tool_index: 0,
    name: "run_terminal_command",
  }),
  noted({ sessionUpdate: "tool_call_delta_chunk", tool_index: 0, arguments_delta: '{"command":"echo hi"}' }),
  noted({
    sessionUpdate: "response_completed",
    usage: { input_tokens: 12, output_tokens: 34, reasoning_tokens: 5 },
  }),
  updated({ sessionUpdate: "tool_call", title: "run_terminal_command", ...shell }),
  [
    "out",
    {
      jsonrpc: "2.0",
      id: 0,
      method: "session/request_permission",
      params: { sessionId: "sample", toolCall: shell, options },
    },
  ],
  replied(0, { outcome: { outcome: "selected", optionId: "allow-once" } }),
  ran("call_1", "in_progress", { content: [{ type: "content", content: { type: "text", text: "hi\n" } }] }),
  ran("call_1", "completed", { content: [{ type: "content", content: { type: "text", text: "hi\n" } }] }),
  updated({
    sessionUpdate: "tool_call",
    toolCallId: "call_2",
    rawInput: { file_path: "a" },
    ...tool("search_replace"),
  }),
  ran("call_2", "completed", { content: [{ type: "diff", path: "a", oldText: "x\n", newText: "y\n" }] }),
  updated({
    sessionUpdate: "tool_call",
    toolCallId: "call_3",
    rawInput: { tool_name: "docs__search", tool_input: {} },
    ...tool("use_tool"),
  }),
  ran("call_3", "completed", { rawOutput: { type: "MCP", output: { OkayOutput: "found" } } }),
  updated({ sessionUpdate: "tool_call", ...spawn }),
  noted({ sessionUpdate: "subagent_spawned", child_session_id: "child", description: "Look" }),
  chunk("message", "Nested.", "child"),
  noted({ sessionUpdate: "subagent_finished", child_session_id: "child", status: "completed" }),
  ran("call_4", "completed", { rawOutput: "Nested." }),
  updated({
    sessionUpdate: "tool_call",
    toolCallId: "call_5",
    rawInput: { questions: [question] },
    ...tool("ask_user_question"),
  }),
  [
    "out",
    {
      jsonrpc: "2.0",
      id: 1,
      method: "_x.ai/ask_user_question",
      params: { sessionId: "sample", toolCallId: "call_5", questions: [question] },
    },
  ],
  replied(1, { outcome: "accepted", answers: { "Which?": ["Red"] } }),
  ran("call_5", "completed", { rawOutput: "Red" }),
  updated({
    sessionUpdate: "plan",
    entries: [{ content: "Look", status: "in_progress", priority: "medium" }],
  }),
  noted({
    sessionUpdate: "auto_compact_completed",
    tokens_before: 100,
    tokens_after: 10,
    summary_preview: "So far.",
  }),
  answered("inp_1", { stopReason: "end_turn" }),
  sent("inp_2", "session/prompt", PROMPT),
  [
    "out",
    {
      jsonrpc: "2.0",
      id: "inp_2",
      error: { code: -32603, message: "Internal error", data: { message: "no", http_status: 400 } },
    },
  ],
]);

function noted(update: object): readonly ["out", object] {
  return [
    "out",
    { jsonrpc: "2.0", method: "_x.ai/session_notification", params: { sessionId: "sample", update } },
  ];
}

function ran(toolCallId: string, status: string, more: object): readonly ["out", object] {
  return updated({ sessionUpdate: "tool_call_update", toolCallId, status, ...more });
}

function tool(name: string): { _meta: object } {
  return { _meta: { "x.ai/tool": { version: 1, name } } };
}
