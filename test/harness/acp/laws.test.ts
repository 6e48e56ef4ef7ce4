import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SpoolLine } from "../../../src/contract/index.ts";
import { acp } from "../../../src/harness/acp/harness.ts";
import type { AcpState } from "../../../src/harness/acp/state.ts";
import { coverageOf } from "../../../src/harness/coverage.ts";
import { gemini } from "../../../src/harness/gemini/harness.ts";
import { grok } from "../../../src/harness/grok/harness.ts";
import type { Harness, HarnessCommand } from "../../../src/harness/port.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { linesOf, RECORDINGS, readerOf } from "./recorded.ts";
import { sampleOf, withSample } from "../samples.ts";

const HARNESSES: readonly Harness<AcpState>[] = [acp, gemini, grok];
const data = "data:image/png;base64,AAAA";

describe.each(HARNESSES.map((harness) => [harness.id, harness] as const))("%s", (_, harness) => {
  it("reads its lines back: prompts, steering, interrupts", () => {
    const state = stateAt(harness, (line) => line.text.includes('"agent_message_chunk"'));
    const text = fc.string().map((text) => ({ type: "text" as const, text: `So: ${text}` }));
    const file = fc
      .string({ minLength: 1 })
      .map((path) => ({ type: "file_ref" as const, path, action: "read" as const }));
    const image = fc.constant({ type: "image" as const, path: data, mime: "image/png" });
    const content = fc.array(fc.oneof(text, file, image), { minLength: 1 });
    fc.assert(
      fc.property(fc.stringMatching(/^inp_\w{1,20}$/), content, (inputId, content) => {
        expectHeard(harness, state, { type: "prompt", inputId, content });
      }),
    );
    expectHeard(harness, state, { type: "interrupt" });
    const steer: HarnessCommand = {
      type: "steer",
      inputId: "inp_9",
      content: [{ type: "text", text: "Left." }],
    };
    if (harness.id === "grok") expectHeard(harness, state, steer);
    else expect(harness.encode(state, steer)).toBeUndefined();
  });

  it("reads every decision back, and carries none to a closed request", () => {
    let state = harness.initial(recordedContext(harness.id));
    let asked = 0;
    for (const line of sampleOf(harness)) {
      const decoded = harness.decode(state, line);
      state = decoded.state;
      for (const fact of decoded.facts) {
        for (const command of decisionsOn(fact)) {
          expectHeard(harness, state, command);
          asked += 1;
        }
      }
    }
    expect(asked).toBeGreaterThan(2);
    expect(harness.encode(state, { type: "permission", id: "perm_none", reply: "once" })).toEqual([]);
  });

  it("distinguishes an unknown method from wrong parameters", () => {
    const codeFor = (method: string, params: object): unknown => {
      const text = JSON.stringify({ jsonrpc: "2.0", id: 7, method, params });
      const line: SpoolLine = { dir: "out", text, at: 0 };
      const { replies = [] } = harness.decode(harness.initial(recordedContext(harness.id)), line);
      return replies.map((reply) => (JSON.parse(reply) as { error?: { code: number } }).error?.code);
    };
    expect(codeFor("session/request_permission", { options: "none" })).toEqual([-32602]);
    expect(codeFor("no/such_method", {})).toEqual([-32601]);
  });

  it("waits with a prompt until a session is open, and opens it in order", () => {
    let state = harness.initial(recordedContext(harness.id));
    const prompt: HarnessCommand = {
      type: "prompt",
      inputId: "inp_1",
      content: [{ type: "text", text: "Hello" }],
    };
    expect(harness.encode(state, prompt)).toBe("later");
    const methods: string[] = [];
    let lines = harness.greet?.(state) ?? [];
    while (lines.length > 0) {
      const [line = ""] = lines;
      const { id, method } = JSON.parse(line);
      methods.push(method);
      state = harness.decode(state, { dir: "in", text: line, at: 0 }).state;
      const answer = sampleOf(harness).find(({ dir, text }) => dir === "out" && JSON.parse(text).id === id);
      const decoded = harness.decode(state, answer ?? { dir: "out", text: "{}", at: 0 });
      state = decoded.state;
      lines = decoded.replies ?? [];
    }
    expect(methods).toEqual(["initialize", "session/new"]);
    expect(harness.encode(state, prompt)).toHaveLength(1);
  });

  it("takes up an earlier session, and says nothing of it twice", () => {
    const context = { ...recordedContext(harness.id), resume: "earlier" };
    let state = harness.initial(context);
    const [hello = ""] = harness.greet?.(state) ?? [];
    state = harness.decode(state, { dir: "in", text: hello, at: 0 }).state;
    const offer = { jsonrpc: "2.0", id: "initialize", result: { agentCapabilities: { loadSession: true } } };
    const opened = harness.decode(state, { dir: "out", text: JSON.stringify(offer), at: 1 });
    const [load = ""] = opened.replies ?? [];
    expect(JSON.parse(load)).toMatchObject({ method: "session/load", params: { sessionId: "earlier" } });
    state = harness.decode(opened.state, { dir: "in", text: load, at: 2 }).state;
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "Long ago." } };
    const old = { jsonrpc: "2.0", method: "session/update", params: { sessionId: "earlier", update } };
    const replayed = harness.decode(state, { dir: "out", text: JSON.stringify(old), at: 3 });
    expect(replayed.facts).toEqual([]);
    const done = harness.decode(replayed.state, {
      dir: "out",
      text: '{"jsonrpc":"2.0","id":"open","result":{}}',
      at: 4,
    });
    expect(done.facts).toMatchObject([{ type: "session.started", native_session_id: "earlier" }]);
  });

  it("shows its features in its sample", () => {
    const { questions, retries, subagents, ...rest } = coverageOf(withSample(harness as Harness));
    expect(Object.values(rest).every(Boolean), JSON.stringify(rest)).toBe(true);
    expect({ questions, retries, subagents }).toEqual({
      questions: harness.id === "grok",
      retries: harness.id !== "acp",
      subagents: harness.id !== "acp",
    });
  });
});

describe("a fork", () => {
  it("is Grok Build's own copy of a session, opened like any other", () => {
    const opened = resumed(grok, { sessionCapabilities: { resume: {} } });
    expect(opened.said).toMatchObject({
      method: "_x.ai/session/fork",
      params: { sourceSessionId: "earlier" },
    });
    const copied = { jsonrpc: "2.0", id: "fork", result: { newSessionId: "copy" } };
    const next = grok.decode(opened.state, { dir: "out", text: JSON.stringify(copied), at: 3 });
    expect(JSON.parse(next.replies?.[0] ?? "{}")).toMatchObject({
      method: "session/resume",
      params: { sessionId: "copy" },
    });
  });

  it("is refused where the agent has none", () => {
    const { said, facts } = resumed(acp, { loadSession: true });
    expect(said).toBeUndefined();
    expect(facts).toMatchObject([{ type: "error" }, { type: "turn.ended", data: { status: "failed" } }]);
  });
});

function resumed(harness: Harness<AcpState>, agentCapabilities: object) {
  const context = { ...recordedContext(harness.id), resume: "earlier", fork: true };
  const [hello = ""] = harness.greet?.(harness.initial(context)) ?? [];
  const greeted = harness.decode(harness.initial(context), { dir: "in", text: hello, at: 0 });
  const offer = { jsonrpc: "2.0", id: "initialize", result: { agentCapabilities } };
  const { state, facts, replies } = harness.decode(greeted.state, {
    dir: "out",
    text: JSON.stringify(offer),
    at: 1,
  });
  const [line] = replies ?? [];
  if (line === undefined) return { state, facts, said: undefined };
  const noted = harness.decode(state, { dir: "in", text: line, at: 2 });
  return { state: noted.state, facts, said: JSON.parse(line) as unknown };
}

describe("any bytes", () => {
  it("never throws, and decodes alike twice", () => {
    const edit = fc.record({ at: fc.nat(), cut: fc.nat({ max: 30 }), paste: fc.string({ maxLength: 8 }) });
    fc.assert(
      fc.property(fc.constantFrom(...RECORDINGS), fc.array(edit, { maxLength: 6 }), (name, edits) => {
        const lines = linesOf(name).map((line, index) => {
          const change = edits.find(({ at }) => at % 40 === index);
          return change ? broken(line, change) : line;
        });
        expect(facts(readerOf(name), lines)).toEqual(facts(readerOf(name), lines));
      }),
      { numRuns: 150 },
    );
  });

  it("keeps a line that is none of the protocol's, and goes on", () => {
    const line: SpoolLine = { dir: "out", text: "Loaded cached credentials.", at: 0 };
    for (const harness of HARNESSES) {
      const { facts } = harness.decode(harness.initial(recordedContext(harness.id)), line);
      expect(facts).toMatchObject([{ type: "agent.unparsed" }]);
    }
  });
});

function broken(line: SpoolLine, { at, cut, paste }: { at: number; cut: number; paste: string }): SpoolLine {
  const from = at % (line.text.length + 1);
  return { ...line, text: line.text.slice(0, from) + paste + line.text.slice(from + cut) };
}

function facts(harness: Harness, lines: readonly SpoolLine[]): unknown[] {
  let state = harness.initial(recordedContext(harness.id));
  return lines.map((line) => {
    const decoded = harness.decode(state, line);
    state = decoded.state;
    return [decoded.facts, decoded.replies];
  });
}

function stateAt(harness: Harness<AcpState>, isThere: (line: SpoolLine) => boolean): AcpState {
  let state = harness.initial(recordedContext(harness.id));
  for (const line of sampleOf(harness)) {
    state = harness.decode(state, line).state;
    if (isThere(line)) return state;
  }
  throw new Error("the sample does not get there");
}

function expectHeard(harness: Harness<AcpState>, state: AcpState, command: HarnessCommand): void {
  const lines = harness.encode(state, command);
  if (!Array.isArray(lines)) throw new Error(`no words for ${command.type}`);
  expect(harness.overhear?.(state, { dir: "in", text: lines[0], at: 0 })).toEqual(command);
}

function decisionsOn(fact: { type: string; data?: unknown }): HarnessCommand[] {
  const ids = (fact.data ?? {}) as {
    permission_id?: string;
    question_id?: string;
    metadata?: { kind?: string };
  };
  if (fact.type === "question.requested") {
    const id = ids.question_id ?? "";
    return [
      { type: "question", id },
      { type: "question", id, answers: [["Red"]] },
    ];
  }
  if (fact.type !== "permission.requested") return [];
  const id = ids.permission_id ?? "";
  return [
    { type: "permission", id, reply: "once" },
    { type: "permission", id, reply: "reject" },
    { type: "permission", id, reply: "reject", message: "Not that." },
  ];
}
