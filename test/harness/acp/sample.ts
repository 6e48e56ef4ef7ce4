import type { SpoolLine } from "../../../src/contract/index.ts";

/** Lines of a sample, by direction. */
export function toLines(said: readonly (readonly ["in" | "out", object])[]): SpoolLine[] {
  return said.map(([dir, message], at) => ({ dir, text: JSON.stringify(message), at }));
}

/** A notification of the sample's session. */
export function updated(update: object, session = "sample"): readonly ["out", object] {
  return ["out", { jsonrpc: "2.0", method: "session/update", params: { sessionId: session, update } }];
}

export function chunk(kind: "message" | "thought", text: string, session?: string): readonly ["out", object] {
  return updated({ sessionUpdate: `agent_${kind}_chunk`, content: { type: "text", text } }, session);
}

export function sent(id: string | number, method: string, params: object): readonly ["in", object] {
  return ["in", { jsonrpc: "2.0", id, method, params }];
}

export function answered(id: string | number, result: object): readonly ["out", object] {
  return ["out", { jsonrpc: "2.0", id, result }];
}

export function replied(id: string | number, result: object): readonly ["in", object] {
  return ["in", { jsonrpc: "2.0", id, result }];
}

export const PROMPT = { sessionId: "sample", prompt: [{ type: "text", text: "Hello" }] };

const options = [
  { optionId: "allow", name: "Allow", kind: "allow_once" },
  { optionId: "reject", name: "Reject", kind: "reject_once" },
];
const bash = { toolCallId: "call_1", title: "bash", kind: "execute" };
const edit = { toolCallId: "call_2", title: "edit", kind: "edit" };

/** A turn with every kind of message of ACP. */
export const sample: readonly SpoolLine[] = toLines([
  sent("initialize", "initialize", { protocolVersion: 1 }),
  answered("initialize", { protocolVersion: 1, agentCapabilities: { loadSession: true } }),
  sent("open", "session/new", { cwd: "/workspace", mcpServers: [{ name: "docs" }] }),
  answered("open", {
    sessionId: "sample",
    modes: { currentModeId: "default", availableModes: [{ id: "default" }, { id: "plan" }] },
    configOptions: [
      { id: "effort", category: "thought_level", options: [{ value: "low" }, { value: "high" }] },
    ],
  }),
  sent("inp_1", "session/prompt", PROMPT),
  chunk("thought", "Hm."),
  chunk("message", "I will "),
  chunk("message", "look."),
  updated({ sessionUpdate: "tool_call", ...bash, status: "pending", rawInput: {} }),
  updated({ sessionUpdate: "tool_call_update", ...bash, rawInput: { command: "echo hi" } }),
  [
    "out",
    {
      jsonrpc: "2.0",
      id: 0,
      method: "session/request_permission",
      params: { sessionId: "sample", toolCall: bash, options },
    },
  ],
  replied(0, { outcome: { outcome: "selected", optionId: "allow" } }),
  updated({
    sessionUpdate: "tool_call_update",
    toolCallId: "call_1",
    status: "in_progress",
    content: [{ type: "content", content: { type: "text", text: "hi\n" } }],
  }),
  updated({
    sessionUpdate: "tool_call_update",
    toolCallId: "call_1",
    status: "completed",
    rawOutput: "hi\n",
  }),
  updated({
    sessionUpdate: "tool_call",
    ...edit,
    status: "in_progress",
    rawInput: { path: "a" },
    content: [{ type: "diff", path: "a", oldText: "x\n", newText: "y\n" }],
  }),
  updated({
    sessionUpdate: "tool_call_update",
    toolCallId: "call_2",
    status: "completed",
    rawOutput: "Edited.",
  }),
  updated({
    sessionUpdate: "tool_call",
    toolCallId: "call_3",
    title: "docs_search",
    status: "in_progress",
    rawInput: {},
  }),
  updated({
    sessionUpdate: "tool_call_update",
    toolCallId: "call_3",
    status: "completed",
    rawOutput: "found",
  }),
  updated({ sessionUpdate: "plan", entries: [{ content: "Look", status: "completed", priority: "medium" }] }),
  updated({ sessionUpdate: "compaction_update", status: "completed", summary: "1 message so far." }),
  updated({ sessionUpdate: "usage_update", used: 100, size: 1000, cost: { amount: 0.001, currency: "USD" } }),
  answered("inp_1", { stopReason: "end_turn", usage: { inputTokens: 12, outputTokens: 34 } }),
  sent("inp_2", "session/prompt", PROMPT),
  ["out", { jsonrpc: "2.0", id: "inp_2", error: { code: -32603, message: "API Error: 400 invalid" } }],
]);
