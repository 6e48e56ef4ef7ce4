import type { SpoolLine } from "../../../src/contract/index.ts";

const MAIN = "ses_1";
const CHILD = "ses_2";

/** One turn with every kind of event of the server and of request to it. */
const conversation: readonly (readonly ["in" | "out", unknown])[] = [
  event("server.connected", {}),
  answer("POST", "/session", 200, JSON.stringify({ id: MAIN, version: "1.18.33", directory: "/workspace" })),
  answer("GET", "/mcp", 200, JSON.stringify({ docs: { status: "connected" } })),
  request("/session/ses_1/prompt_async", { parts: [{ type: "text", text: "Hello" }] }),
  event("message.updated", {
    sessionID: MAIN,
    info: { id: "msg_1", role: "user", sessionID: MAIN, model: { providerID: "p", modelID: "m" } },
  }),
  message("msg_2", MAIN),
  status({ type: "retry", attempt: 1, message: "529 overloaded_error", next: 1_794_710_550_019 }),
  status({ type: "busy" }),
  part({ id: "prt_1", type: "reasoning", text: "", time: { start: 1 } }),
  delta("prt_1", "Hm."),
  part({ id: "prt_1", type: "reasoning", text: "Hm.", time: { start: 1, end: 2 } }),
  part({ id: "prt_2", type: "text", text: "", time: { start: 1 } }),
  delta("prt_2", "I look."),
  part({ id: "prt_2", type: "text", text: "I look.", time: { start: 1, end: 2 } }),
  tool("prt_3", "call_1", "bash", { status: "pending", input: {} }),
  tool("prt_3", "call_1", "bash", { status: "running", input: { command: "ls" } }),
  event("permission.asked", {
    id: "per_1",
    sessionID: MAIN,
    permission: "bash",
    patterns: ["ls"],
    metadata: { command: "ls" },
    always: ["ls *"],
    tool: { messageID: "msg_2", callID: "call_1" },
  }),
  request("/permission/per_1/reply", { reply: "once" }),
  event("permission.replied", { sessionID: MAIN, requestID: "per_1", reply: "once" }),
  tool("prt_3", "call_1", "bash", {
    status: "running",
    input: { command: "ls" },
    metadata: { output: "a\n" },
  }),
  tool("prt_3", "call_1", "bash", {
    status: "completed",
    input: { command: "ls" },
    output: "a\n",
    metadata: { output: "a\n", exit: 0 },
  }),
  tool("prt_4", "call_2", "edit", {
    status: "completed",
    input: { filePath: "/workspace/a" },
    output: "Edited.",
    metadata: { diff: "--- a\n+++ a\n" },
  }),
  tool("prt_5", "call_3", "docs_search", { status: "completed", input: {}, output: "found" }),
  event("question.asked", {
    id: "que_1",
    sessionID: MAIN,
    questions: [{ question: "Which?", options: [{ label: "a" }, { label: "b" }] }],
  }),
  request("/question/que_1/reply", { answers: [["a"]] }),
  event("todo.updated", {
    sessionID: MAIN,
    todos: [{ content: "Look", status: "completed", priority: "high" }],
  }),
  tool("prt_6", "call_4", "task", {
    status: "running",
    input: { prompt: "Help" },
    metadata: { sessionId: CHILD },
  }),
  message("msg_3", CHILD),
  event("message.part.updated", {
    part: {
      id: "prt_7",
      messageID: "msg_3",
      sessionID: CHILD,
      type: "text",
      text: "Nested.",
      time: { start: 1, end: 2 },
    },
  }),
  message("msg_3", CHILD, { finish: "stop" }),
  tool("prt_6", "call_4", "task", { status: "completed", input: { prompt: "Help" }, output: "Nested." }),
  part({
    id: "prt_8",
    type: "step-finish",
    reason: "stop",
    cost: 0.01,
    tokens: { input: 12, output: 34, reasoning: 5, cache: { read: 6, write: 7 } },
  }),
  message("msg_2", MAIN, { finish: "tool-calls" }),
  event("session.error", {
    sessionID: MAIN,
    error: { name: "ContextOverflowError", data: { message: "prompt is too long" } },
  }),
  event("message.part.updated", {
    part: { id: "prt_9", messageID: "msg_4", sessionID: MAIN, type: "compaction", auto: true },
  }),
  message("msg_5", MAIN, { summary: true, finish: "stop" }),
  event("message.part.updated", {
    part: {
      id: "prt_10",
      messageID: "msg_5",
      sessionID: MAIN,
      type: "text",
      text: "So far.",
      time: { start: 1, end: 2 },
    },
  }),
  event("session.compacted", { sessionID: MAIN }),
  event("session.idle", { sessionID: MAIN }),
];

export const sample: readonly SpoolLine[] = conversation.map(([dir, line], at) => ({
  dir,
  text: JSON.stringify(line),
  at,
}));

type Line = readonly ["in" | "out", unknown];

function event(type: string, properties: unknown): Line {
  return ["out", { id: "evt_1dd15acf6001Tq", type, properties }];
}

function request(path: string, body: unknown): Line {
  return ["in", { method: "POST", path, body }];
}

function answer(method: string, path: string, status: number, body: string): Line {
  return ["out", { method, path, status, body }];
}

function message(id: string, sessionID: string, ended?: object): Line {
  const time = { created: 1, ...(ended === undefined ? {} : { completed: 2 }) };
  return event("message.updated", {
    sessionID,
    info: { id, sessionID, role: "assistant", providerID: "p", modelID: "m", time, ...ended },
  });
}

function status(status: unknown): Line {
  return event("session.status", { sessionID: MAIN, status });
}

function part(part: object): Line {
  return event("message.part.updated", {
    sessionID: MAIN,
    part: { sessionID: MAIN, messageID: "msg_2", ...part },
  });
}

function tool(id: string, callID: string, tool: string, state: object): Line {
  return part({ id, callID, tool, type: "tool", state });
}

function delta(partID: string, delta: string): Line {
  return event("message.part.delta", { sessionID: MAIN, messageID: "msg_2", partID, field: "text", delta });
}
