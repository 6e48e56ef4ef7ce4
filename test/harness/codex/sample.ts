import type { SpoolLine } from "../../../src/contract/index.ts";

const main = { threadId: "t1", turnId: "u1" };
const agent = { threadId: "t2", turnId: "u2" };
const total = {
  inputTokens: 124,
  cachedInputTokens: 30,
  cacheWriteInputTokens: 0,
  outputTokens: 41,
  reasoningOutputTokens: 9,
};
const command = {
  type: "commandExecution",
  id: "call_1",
  command: "/bin/bash -lc 'echo hi'",
  cwd: "/workspace",
};
const patch = {
  type: "fileChange",
  id: "call_2",
  changes: [
    { path: "/workspace/a", kind: { type: "update", move_path: null }, diff: "@@ -1 +1 @@\n-x\n+y\n" },
  ],
};
const mcp = { type: "mcpToolCall", id: "call_3", server: "docs", tool: "search", arguments: { q: "x" } };
const dynamic = { type: "dynamicToolCall", id: "call_4", tool: "weather", arguments: {} };
const spawn = {
  type: "collabAgentToolCall",
  id: "call_5",
  tool: "spawnAgent",
  prompt: "Say hello.",
  receiverThreadIds: ["t2"],
};
const disconnected = { responseStreamDisconnected: { httpStatusCode: 429 } };

/** One turn, shortened by hand, with every kind of line from Codex and to it. */
const conversation: readonly (readonly ["in" | "out", Readonly<Record<string, unknown>>])[] = [
  ["in", { id: "initialize", method: "initialize", params: {} }],
  ["out", { id: "initialize", result: { userAgent: "sluice/0.166.0", codexHome: "/home/user/.codex" } }],
  ["in", { method: "initialized" }],
  ["in", { id: "thread", method: "thread/start", params: { cwd: "/workspace" } }],
  ["out", { id: "thread", result: { thread: { id: "t1" }, model: "gpt-5.5" } }],
  [
    "in",
    {
      id: "turn:inp_1",
      method: "turn/start",
      params: { threadId: "t1", input: [{ type: "text", text: "Hello" }] },
    },
  ],
  ["out", { id: "turn:inp_1", result: { turn: { id: "u1" } } }],
  ["out", { method: "turn/started", params: { ...main, turn: { id: "u1" } } }],
  [
    "out",
    {
      method: "error",
      params: {
        ...main,
        willRetry: true,
        error: { message: "Reconnecting... 1/3", codexErrorInfo: disconnected },
      },
    },
  ],
  [
    "out",
    { method: "turn/plan/updated", params: { ...main, plan: [{ step: "Look", status: "inProgress" }] } },
  ],
  ["out", { method: "item/started", params: { ...main, item: { type: "reasoning", id: "rs_1" } } }],
  [
    "out",
    {
      method: "item/reasoning/summaryTextDelta",
      params: { ...main, itemId: "rs_1", delta: "Hm.", summaryIndex: 0 },
    },
  ],
  [
    "out",
    {
      method: "item/completed",
      params: { ...main, item: { type: "reasoning", id: "rs_1", summary: ["Hm."] } },
    },
  ],
  [
    "out",
    { method: "item/started", params: { ...main, item: { type: "agentMessage", id: "msg_1", text: "" } } },
  ],
  ["out", { method: "item/agentMessage/delta", params: { ...main, itemId: "msg_1", delta: "Hello." } }],
  [
    "out",
    {
      method: "item/completed",
      params: { ...main, item: { type: "agentMessage", id: "msg_1", text: "Hello." } },
    },
  ],
  ["out", { method: "item/started", params: { ...main, item: { ...command, status: "inProgress" } } }],
  [
    "out",
    {
      id: 0,
      method: "item/commandExecution/requestApproval",
      params: { ...main, itemId: "call_1", command: command.command },
    },
  ],
  ["in", { id: 0, result: { decision: "accept" } }],
  ["out", { method: "serverRequest/resolved", params: { threadId: "t1", requestId: 0 } }],
  [
    "out",
    { method: "item/commandExecution/outputDelta", params: { ...main, itemId: "call_1", delta: "hi\n" } },
  ],
  [
    "out",
    {
      method: "item/completed",
      params: { ...main, item: { ...command, status: "completed", aggregatedOutput: "hi\n", exitCode: 0 } },
    },
  ],
  ["out", { method: "thread/tokenUsage/updated", params: { ...main, tokenUsage: { total, last: total } } }],
  ["out", { method: "item/started", params: { ...main, item: { ...patch, status: "inProgress" } } }],
  ["out", { method: "item/completed", params: { ...main, item: { ...patch, status: "completed" } } }],
  ["out", { method: "item/started", params: { ...main, item: { ...mcp, status: "inProgress" } } }],
  [
    "out",
    {
      id: 1,
      method: "mcpServer/elicitation/request",
      params: {
        ...main,
        serverName: "docs",
        mode: "form",
        message: 'Allow the docs MCP server to run tool "search"?',
      },
    },
  ],
  ["in", { id: 1, result: { action: "accept", content: {} } }],
  [
    "out",
    {
      method: "item/completed",
      params: {
        ...main,
        item: { ...mcp, status: "completed", result: { content: [{ type: "text", text: "found" }] } },
      },
    },
  ],
  ["out", { method: "item/started", params: { ...main, item: { ...dynamic, status: "inProgress" } } }],
  [
    "out",
    {
      id: 2,
      method: "item/tool/call",
      params: { ...main, callId: "call_4", tool: "weather", arguments: {} },
    },
  ],
  ["in", { id: 2, result: { contentItems: [{ type: "inputText", text: "sunny" }], success: true } }],
  [
    "out",
    {
      method: "item/completed",
      params: {
        ...main,
        item: { ...dynamic, status: "completed", contentItems: [{ type: "inputText", text: "sunny" }] },
      },
    },
  ],
  [
    "out",
    {
      id: 3,
      method: "item/tool/requestUserInput",
      params: {
        ...main,
        questions: [{ id: "q1", question: "Which?", options: [{ label: "a" }, { label: "b" }] }],
      },
    },
  ],
  ["in", { id: 3, result: { answers: { q1: { answers: ["a"] } } } }],
  ["out", { method: "item/started", params: { ...main, item: { ...spawn, status: "inProgress" } } }],
  ["out", { method: "item/completed", params: { ...main, item: { ...spawn, status: "completed" } } }],
  [
    "out",
    { method: "item/started", params: { ...agent, item: { type: "agentMessage", id: "msg_2", text: "" } } },
  ],
  [
    "out",
    {
      method: "item/completed",
      params: { ...agent, item: { type: "agentMessage", id: "msg_2", text: "Nested." } },
    },
  ],
  [
    "out",
    { method: "item/completed", params: { ...main, item: { type: "contextCompaction", id: "cmp_1" } } },
  ],
  [
    "out",
    {
      method: "mcpServer/startupStatus/updated",
      params: { threadId: "t1", name: "gone", status: "failed", error: "no" },
    },
  ],
];

export const sample: readonly SpoolLine[] = conversation.map(([dir, message], at) => ({
  dir,
  text: JSON.stringify(message),
  at,
}));
