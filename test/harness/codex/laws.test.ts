import * as fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ContentPart, SpoolLine } from "../../../src/contract/index.ts";
import { codex } from "../../../src/harness/codex/harness.ts";
import type { CodexState } from "../../../src/harness/codex/state.ts";
import type { DecodeContext, HarnessCommand } from "../../../src/harness/port.ts";
import { parseRecording, recordedContext } from "../../../src/harness/recording.ts";

const FOLDER = join(import.meta.dirname, "../recordings/codex");
const LINES = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".jsonl"))
  .flatMap((name) => parseRecording(readFileSync(join(FOLDER, name), "utf8")));

const THREAD = { threadId: "t1", turnId: "u1" };

describe("Codex's adapter", () => {
  it("reads its encoded commands back", () => {
    const state = stateAfter(...OPEN, ...ASKS);
    const [command, patch, mcp, grant, form, question, tool] = Object.keys(state.transcript.asks);
    const words = fc
      .string({ minLength: 1 })
      .filter((text) => !text.startsWith("Attached file: ") && text !== "/compact");
    const part = fc.oneof(
      words.map((text): ContentPart => ({ type: "text", text })),
      fc.base64String({ minLength: 4 }).map((data): ContentPart => ({
        type: "image",
        path: `data:image/png;base64,${data}`,
        mime: "image/png",
      })),
      fc.constant<ContentPart>({ type: "image", path: "/workspace/picture.png" }),
      fc.constant<ContentPart>({ type: "file_ref", path: "/workspace/a b.txt", action: "read" }),
    );
    const content = fc.array(part, { minLength: 1 });
    const ids = fc.constantFrom(command, patch, mcp, grant);
    const permission = fc
      .record({
        id: ids,
        reply: fc.constantFrom("once", "always", "reject"),
        message: fc.option(words, { nil: undefined }),
      })
      .map(({ id, reply, message }) =>
        message === undefined
          ? { type: "permission", id, reply }
          : { type: "permission", id, reply, message },
      );
    const commands = fc.oneof(
      content.map((content) => ({ type: "prompt", inputId: "inp_1", content })),
      content.map((content) => ({ type: "steer", inputId: "inp_2", content })),
      fc.constantFrom(
        { type: "prompt", inputId: "inp_3", content: [{ type: "text", text: "/compact" }] },
        { type: "interrupt" },
        { type: "question", id: question },
        { type: "question", id: form },
      ),
      permission,
      fc
        .tuple(words, fc.array(words))
        .map(([one, many]) => ({ type: "question", id: question, answers: [[one], many] })),
      fc.tuple(words, fc.integer(), fc.boolean()).map(([name, age, ok]) => ({
        type: "question",
        id: form,
        answers: [[name], [String(age)], [String(ok)]],
      })),
      fc
        .tuple(words, fc.boolean())
        .map(([text, isError]) => ({ type: "tool", id: tool, content: [{ type: "text", text }], isError })),
    ) as fc.Arbitrary<HarnessCommand>;
    fc.assert(
      fc.property(commands, (given) => {
        expect(readBack(state, given)).toEqual(given);
      }),
    );
  });

  it("reads back its lines to a stopped Codex: the retry, the plan, and their interruption", () => {
    const failed = { message: "Selected model is at capacity.", codexErrorInfo: "serverOverloaded" };
    const halted = stateAfter(
      ...OPEN,
      out("turn/completed", { turn: { id: "u1", status: "failed", error: failed } }),
    );
    for (const given of [{ type: "retry" }, { type: "interrupt" }] as const) {
      expect(readBack(halted, given)).toEqual(given);
    }
    const planned = stateIn(
      { ...recordedContext("codex"), spec: { agent: "codex", permissionMode: "plan" } },
      ...OPEN,
      out("item/completed", { item: { type: "plan", id: "p1", text: "# Plan" } }),
      out("turn/completed", { turn: { id: "u1", status: "completed" } }),
    );
    const [id = ""] = Object.keys(planned.transcript.asks);
    for (const reply of ["once", "always", "reject"] as const) {
      expect(readBack(planned, { type: "permission", id, reply })).toEqual({ type: "permission", id, reply });
    }
    const revised = { type: "permission", id, reply: "reject", message: "smaller steps" } as const;
    expect(readBack(planned, revised)).toEqual(revised);
    expect(readBack(planned, { type: "interrupt" })).toEqual({ type: "interrupt" });
  });

  it("says nothing to an ask that waits no more, and waits for the handshake", () => {
    const state = stateAfter(...OPEN, ...ASKS);
    const [id = ""] = Object.keys(state.transcript.asks);
    const allow: HarnessCommand = { type: "permission", id, reply: "once" };
    const [line = ""] = codex.encode(state, allow) as string[];
    const answered = codex.decode(state, { dir: "in", text: line, at: 9 }).state;
    expect(codex.encode(answered, allow)).toEqual([]);
    const fresh = codex.initial(recordedContext("codex"));
    expect(codex.encode(fresh, { type: "prompt", inputId: "inp_1", content: [] })).toBe("later");
    expect(codex.encode(fresh, { type: "interrupt" })).toEqual([]);
  });

  it("takes a question back that Codex resolves by itself", () => {
    const state = stateAfter(...OPEN, ...ASKS);
    const ids = Object.keys(state.transcript.asks);
    const facts = ASKS.map(
      (_, requestId) => codex.decode(state, out("serverRequest/resolved", { requestId })).facts,
    );
    expect(facts.map(([fact]) => fact?.type)).toEqual([
      "permission.resolved",
      "permission.resolved",
      "permission.resolved",
      "permission.resolved",
      "question.resolved",
      "question.resolved",
      "tool.resolved",
    ]);
    expect(facts[0]).toMatchObject([
      { data: { permission_id: ids[0], status: "denied", metadata: { by: "agent" } } },
    ]);
  });

  it("ends a prompt once, also when more lines follow", () => {
    const done = out("turn/completed", { turn: { id: "u1", status: "completed" } });
    const state = stateAfter(...OPEN);
    const first = codex.decode(state, done);
    expect(first.facts.map(({ type }) => type)).toContain("turn.ended");
    expect(codex.decode(first.state, done).facts).toEqual([]);
  });

  it("refuses a sub-agent that asks after the end of its turn", () => {
    const over = stateAfter(...OPEN, out("turn/completed", { turn: { id: "u1", status: "completed" } }));
    const params = { threadId: "t2", turnId: "u2", itemId: "call_9", command: "rm -rf /" };
    const text = JSON.stringify({ id: 9, method: "item/commandExecution/requestApproval", params });
    const { facts, replies } = codex.decode(over, { dir: "out", text, at: 1 });
    expect(replies?.map((reply) => JSON.parse(reply))).toEqual([{ id: 9, result: { decision: "decline" } }]);
    expect(facts.map(({ type }) => type)).not.toContain("permission.requested");
  });

  it("fails the turn, and the session with it, when the conversation cannot be resumed", () => {
    const resumed = { ...recordedContext("codex"), resume: "gone" };
    const greeted = stateIn(resumed, sent("initialize", "initialize", {}));
    const { state, replies } = codex.decode(greeted, result("initialize", {}));
    expect(replies?.map((line) => JSON.parse(line))).toMatchObject([
      { method: "initialized" },
      { id: "thread", method: "thread/resume", params: { threadId: "gone" } },
    ]);
    const opened = codex.decode(state, { dir: "in", text: replies?.[1] ?? "", at: 1 }).state;
    const refusal = { id: "thread", error: { code: -32600, message: "no rollout found for thread id gone" } };
    const refused = codex.decode(opened, { dir: "out", text: JSON.stringify(refusal), at: 2 }).state;
    const [prompt = ""] = codex.encode(refused, { type: "prompt", inputId: "i", content: [] }) as string[];
    const prompted = codex.decode(refused, { dir: "in", text: prompt, at: 3 }).state;
    const answer = { id: "turn:i", error: { code: -32600, message: "thread not found: gone" } };
    const { facts } = codex.decode(prompted, { dir: "out", text: JSON.stringify(answer), at: 4 });
    expect(facts).toMatchObject([
      { type: "error", data: { code: "resume_failed" } },
      { type: "turn.ended", data: { status: "failed", stop_reason: "model_error" } },
    ]);
  });

  it("never throws, and decodes the same damaged line the same way", () => {
    const states = [stateAfter(), stateAfter(...OPEN), stateAfter(...OPEN, ...ASKS)];
    const line = fc.constantFrom(...LINES).chain(({ dir, text }) =>
      fc.oneof(
        fc.nat(text.length).map((end) => ({ dir, text: text.slice(0, end), at: 1 })),
        fc.tuple(fc.nat(text.length), fc.string()).map(([at, junk]) => ({
          dir,
          text: text.slice(0, at) + junk + text.slice(at + junk.length),
          at: 1,
        })),
        fc.json().map((value) => ({
          dir,
          text: text.replace(/:("[^"]*"|\d+|null|\{\}|\[\])/, () => `:${value}`),
          at: 1,
        })),
        fc.constant({ dir, text: text.replaceAll(/"(id|itemId|threadId)"/g, '"constructor"'), at: 1 }),
      ),
    );
    fc.assert(
      fc.property(fc.constantFrom(...states), line, (state, given) => {
        const before = JSON.stringify(state);
        const first = codex.decode(state, given);
        expect(codex.decode(state, given)).toEqual(first);
        expect(JSON.stringify(state)).toBe(before);
        expect(() => JSON.stringify(first)).not.toThrow();
        codex.overhear?.(state, given);
      }),
      { numRuns: 500 },
    );
  });
});

const OPEN = [
  sent("initialize", "initialize", {}),
  result("initialize", {}),
  sent("thread", "thread/start", {}),
  result("thread", { thread: { id: "t1" }, model: "gpt-5.5" }),
  sent("turn:inp_0", "turn/start", { threadId: "t1", input: [] }),
  out("turn/started", { turn: { id: "u1" } }),
];

const FORM = { name: { type: "string" }, age: { type: "integer" }, ok: { type: "boolean" } };

const ASKS = [
  ask(0, "item/commandExecution/requestApproval", { itemId: "c1", command: "touch x" }),
  ask(1, "item/fileChange/requestApproval", { itemId: "c2" }),
  ask(2, "mcpServer/elicitation/request", {
    serverName: "tiny",
    message: 'run tool "add"?',
    requestedSchema: {},
  }),
  ask(3, "item/permissions/requestApproval", { permissions: { network: { enabled: true } } }),
  ask(4, "mcpServer/elicitation/request", {
    serverName: "tiny",
    message: "Who?",
    requestedSchema: { properties: FORM },
  }),
  ask(5, "item/tool/requestUserInput", {
    questions: [
      { id: "q1", question: "A?" },
      { id: "q2", question: "B?" },
    ],
  }),
  ask(6, "item/tool/call", { callId: "c3", tool: "weather", arguments: {} }),
];

function stateAfter(...lines: SpoolLine[]): CodexState {
  return stateIn(recordedContext("codex"), ...lines);
}

function stateIn(context: DecodeContext, ...lines: SpoolLine[]): CodexState {
  return lines.reduce((state, line) => codex.decode(state, line).state, codex.initial(context));
}

/** The commands that are read back from the lines of a command. */
function readBack(state: CodexState, command: HarnessCommand): HarnessCommand | undefined {
  const lines = codex.encode(state, command);
  const commands = (Array.isArray(lines) ? (lines as string[]) : []).flatMap((text) => {
    const found = codex.overhear?.(state, { dir: "in", text, at: 0 });
    return found === undefined ? [] : [found];
  });
  expect(commands.length).toBeLessThanOrEqual(1);
  return commands[0];
}

function sent(id: string, method: string, params: object): SpoolLine {
  return { dir: "in", text: JSON.stringify({ id, method, params }), at: 0 };
}

function result(id: string, value: object): SpoolLine {
  return { dir: "out", text: JSON.stringify({ id, result: value }), at: 0 };
}

function out(method: string, params: object): SpoolLine {
  return { dir: "out", text: JSON.stringify({ method, params: { ...THREAD, ...params } }), at: 0 };
}

function ask(id: number, method: string, params: object): SpoolLine {
  return { dir: "out", text: JSON.stringify({ id, method, params: { ...THREAD, ...params } }), at: 0 };
}
