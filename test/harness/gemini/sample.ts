import type { SpoolLine } from "../../../src/contract/index.ts";
import { answered, chunk, PROMPT, replied, sent, toLines, updated } from "../acp/sample.ts";

const options = [
  { optionId: "proceed_always", name: "Allow for this session", kind: "allow_always" },
  { optionId: "proceed_once", name: "Allow", kind: "allow_once" },
  { optionId: "cancel", name: "Reject", kind: "reject_once" },
];
const shell = { toolCallId: "run_shell_command__fc_1", title: "echo hi", kind: "execute" };
const write = {
  toolCallId: "write_file__fc_2",
  title: "Writing to a",
  kind: "edit",
  content: [{ type: "diff", path: "/workspace/a", oldText: "", newText: "x\n" }],
};
const todos = [{ description: "Look", status: "in_progress" }];
const usage = {
  promptTokenCount: 12,
  candidatesTokenCount: 34,
  cachedContentTokenCount: 2,
  thoughtsTokenCount: 5,
};

/** A turn with every kind of message of Gemini CLI, and the lines of the observer in its process. */
export const sample: readonly SpoolLine[] = toLines([
  sent("initialize", "initialize", { protocolVersion: 1 }),
  answered("initialize", { protocolVersion: 1, agentCapabilities: { loadSession: true } }),
  sent("open", "session/new", { cwd: "/workspace", mcpServers: [{ name: "docs" }] }),
  answered("open", { sessionId: "sample", modes: { currentModeId: "default", availableModes: [] } }),
  sent("inp_1", "session/prompt", PROMPT),
  seen({ event: "request", id: 1, model: "gemini-2.5-pro", results: [] }),
  seen({ event: "failed", id: 1, status: 503 }),
  seen({ event: "request", id: 2, model: "gemini-2.5-pro", results: [] }),
  seen({ event: "words", id: 2, text: "Hm.", thought: true }),
  chunk("message", "I will "),
  chunk("message", "look."),
  seen({
    event: "call",
    id: 2,
    call: { id: "fc_1", name: "run_shell_command", args: { command: "echo hi" } },
  }),
  seen({
    event: "call",
    id: 2,
    call: { id: "fc_2", name: "write_file", args: { file_path: "a", content: "x\n" } },
  }),
  seen({ event: "call", id: 2, call: { id: "fc_3", name: "mcp_docs_search", args: {} } }),
  seen({ event: "call", id: 2, call: { id: "fc_4", name: "write_todos", args: { todos } } }),
  seen({
    event: "call",
    id: 2,
    call: { id: "fc_5", name: "codebase_investigator", args: { objective: "Look" } },
  }),
  seen({ event: "response", id: 2, usage }),
  [
    "out",
    {
      jsonrpc: "2.0",
      id: 0,
      method: "session/request_permission",
      params: { sessionId: "sample", toolCall: shell, options },
    },
  ],
  replied(0, { outcome: { outcome: "selected", optionId: "proceed_once" } }),
  ended({ ...shell, content: [{ type: "content", content: { type: "text", text: "hi" } }] }),
  updated({ sessionUpdate: "tool_call", ...write, status: "in_progress" }),
  ended(write),
  started("mcp_docs_search__fc_3"),
  ended({ toolCallId: "mcp_docs_search__fc_3", title: "search", kind: "other" }),
  started("write_todos__fc_4"),
  ended({ toolCallId: "write_todos__fc_4", title: "Set 1 todo(s)", kind: "other" }),
  started("codebase_investigator__fc_5"),
  seen({ event: "request", id: 3, model: "gemini-2.5-pro", results: [] }),
  seen({ event: "call", id: 3, call: { id: "fc_6", name: "read_file", args: { file_path: "a" } } }),
  seen({ event: "response", id: 3, usage }),
  seen({ event: "request", id: 4, results: [{ id: "fc_6", name: "read_file", response: { output: "x" } }] }),
  seen({ event: "response", id: 4, usage }),
  ended({ toolCallId: "codebase_investigator__fc_5", title: "Investigate", kind: "think" }),
  seen({ event: "request", id: 5, results: [], isSummary: true }),
  seen({ event: "response", id: 5, usage }),
  answered("inp_1", { stopReason: "end_turn" }),
  sent("inp_2", "session/prompt", PROMPT),
  ["out", { jsonrpc: "2.0", id: "inp_2", error: { code: 400, message: "Bad request" } }],
]);

function seen(params: object): readonly ["out", object] {
  return ["out", { jsonrpc: "2.0", method: "_sluice/model", params }];
}

function started(toolCallId: string): readonly ["out", object] {
  return updated({
    sessionUpdate: "tool_call",
    toolCallId,
    status: "in_progress",
    title: "It runs",
    kind: "other",
  });
}

function ended(call: object): readonly ["out", object] {
  return updated({ sessionUpdate: "tool_call_update", ...call, status: "completed" });
}
