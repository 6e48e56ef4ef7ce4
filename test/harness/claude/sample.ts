import type { SpoolLine } from "../../../src/contract/index.ts";

const MODEL = "claude-sonnet-4-5";

const control = (request_id: string, request: object): object => ({
  type: "control_request",
  request_id,
  request,
});
const answer = (request_id: string, response: object): object => ({
  type: "control_response",
  response: { subtype: "success", request_id, response },
});
const asked = (request_id: string, request: object): object => ({
  out: control(request_id, { subtype: "can_use_tool", ...request }),
});
const stream = (event: object): object => ({
  out: { type: "stream_event", event, parent_tool_use_id: null },
});
const start = (index: number, content_block: object): object =>
  stream({ type: "content_block_start", index, content_block });
const delta = (index: number, delta: object): object => stream({ type: "content_block_delta", index, delta });
const said = (id: string, block: object, parent: string | null = null): object => ({
  out: {
    type: "assistant",
    message: { id, role: "assistant", model: MODEL, content: [block] },
    parent_tool_use_id: parent,
  },
});
const called = (id: string, name: string, input: object): object =>
  said("msg_2", { type: "tool_use", id, name, input });
const result = (tool_use_id: string, content: unknown, tool_use_result: unknown = {}): object => ({
  out: {
    type: "user",
    message: { role: "user", content: [{ type: "tool_result", tool_use_id, content, is_error: false }] },
    tool_use_result,
    parent_tool_use_id: null,
  },
});
const usage = {
  input_tokens: 121,
  cache_read_input_tokens: 30,
  cache_creation_input_tokens: 0,
  output_tokens: 1,
};

/** One turn with every kind of line from the CLI and to it. */
const conversation: readonly object[] = [
  { in: control("initialize", { subtype: "initialize", hooks: null, forwardSubagentText: true }) },
  { out: answer("initialize", { commands: [] }) },
  {
    in: {
      type: "user",
      session_id: "",
      message: { role: "user", content: [{ type: "text", text: "Hello" }] },
    },
  },
  {
    out: {
      type: "system",
      subtype: "init",
      session_id: "5a3f1a52-9f0c-4e55-8f0e-3c2a9d0f1b11",
      model: MODEL,
    },
  },
  {
    out: {
      type: "system",
      subtype: "api_retry",
      attempt: 1,
      max_retries: 10,
      retry_delay_ms: 598,
      error_status: 529,
      error: "overloaded",
    },
  },
  stream({ type: "message_start", message: { id: "msg_1", role: "assistant", model: MODEL, usage } }),
  start(0, { type: "thinking", thinking: "", signature: "" }),
  delta(0, { type: "thinking_delta", thinking: "Hm." }),
  said("msg_1", { type: "thinking", thinking: "Hm.", signature: "" }),
  stream({ type: "content_block_stop", index: 0 }),
  start(1, { type: "text", text: "" }),
  delta(1, { type: "text_delta", text: "Let me look." }),
  said("msg_1", { type: "text", text: "Let me look." }),
  stream({ type: "content_block_stop", index: 1 }),
  start(2, { type: "tool_use", id: "toolu_1", name: "Bash", input: {} }),
  delta(2, { type: "input_json_delta", partial_json: '{"command":"touch a"}' }),
  said("msg_1", { type: "tool_use", id: "toolu_1", name: "Bash", input: { command: "touch a" } }),
  stream({ type: "content_block_stop", index: 2 }),
  stream({ type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 34 } }),
  stream({ type: "message_stop" }),
  asked("req_1", { tool_name: "Bash", input: { command: "touch a" }, tool_use_id: "toolu_1" }),
  { in: answer("req_1", { behavior: "allow", updatedInput: { command: "touch a" } }) },
  result("toolu_1", "", { stdout: "", stderr: "" }),
  called("toolu_2", "Edit", { file_path: "/workspace/a", old_string: "x", new_string: "y" }),
  result("toolu_2", "The file /workspace/a has been updated.", {
    filePath: "/workspace/a",
    structuredPatch: [{ oldStart: 1, oldLines: 1, newStart: 1, newLines: 1, lines: ["-x", "+y"] }],
  }),
  called("toolu_3", "mcp__docs__search", { query: "x" }),
  result("toolu_3", [{ type: "text", text: "found" }]),
  called("toolu_4", "TaskCreate", { subject: "Look", description: "Look" }),
  result("toolu_4", "Task #1 created successfully: Look", { task: { id: "1", subject: "Look" } }),
  called("toolu_5", "AskUserQuestion", {
    questions: [{ question: "Which?", options: [{ label: "a" }, { label: "b" }] }],
  }),
  asked("req_2", {
    tool_name: "AskUserQuestion",
    input: { questions: [{ question: "Which?", options: [{ label: "a" }, { label: "b" }] }] },
    tool_use_id: "toolu_5",
  }),
  { in: answer("req_2", { behavior: "allow", updatedInput: { answers: { "Which?": "a" } } }) },
  result("toolu_5", 'Your questions have been answered: "Which?"="a".'),
  called("toolu_6", "Agent", { prompt: "Say hello.", description: "Say hello" }),
  result("toolu_6", "Async agent launched successfully.", { status: "async_launched", agentId: "a1" }),
  said("msg_3", { type: "text", text: "Hello." }, "toolu_6"),
  {
    out: {
      type: "system",
      subtype: "task_notification",
      task_id: "a1",
      tool_use_id: "toolu_6",
      status: "completed",
      summary: "Hello.",
    },
  },
  {
    out: {
      type: "system",
      subtype: "compact_boundary",
      compact_metadata: { trigger: "auto", pre_tokens: 178 },
    },
  },
  { out: { type: "user", message: { role: "user", content: "The summary." }, isSynthetic: true } },
  {
    out: {
      type: "result",
      subtype: "success",
      is_error: true,
      terminal_reason: "api_error",
      api_error_status: 529,
      result: "API Error: 529 Overloaded",
      modelUsage: {
        [MODEL]: { inputTokens: 365, outputTokens: 102, cacheReadInputTokens: 90, costUSD: 0.0026 },
      },
    },
  },
];

export const sample: readonly SpoolLine[] = conversation.map((entry, at) => {
  const [[dir, line] = []] = Object.entries(entry) as ["in" | "out", object][];
  return { dir: dir ?? "out", text: JSON.stringify(line), at };
});
