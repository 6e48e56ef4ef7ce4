import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AnswerReader } from "../../src/gateway/answer-reader.ts";
import { anthropic } from "../../src/gateway/wires/anthropic.ts";
import { chat } from "../../src/gateway/wires/chat.ts";
import { gemini } from "../../src/gateway/wires/gemini.ts";
import { responses } from "../../src/gateway/wires/responses.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { WIRES as TEST_WIRES } from "../model/wires.ts";
import { ask } from "./lab.ts";

const WIRES = { anthropic, responses, chat, gemini };
const USAGE = { input_tokens: 120, output_tokens: 44, cache_read_tokens: 30, reasoning_tokens: 9 };
const SCRIPT = [{ think: "hm" }, { say: "héllo 🌍 wörld", chunks: 7 }, { usage: USAGE }];
const STOPS = { anthropic: "end_turn", responses: "completed", chat: "stop", gemini: "STOP" };

let model: ScriptedModel;
beforeAll(async () => {
  model = await createScriptedModel();
});
afterAll(() => model.close());

const cases = TEST_WIRES.flatMap((wire) => [true, false].map((stream) => ({ wire, stream, name: wire.id })));

describe.each(cases)("$name, streamed: $stream", ({ wire, stream }) => {
  const reader = WIRES[wire.id as keyof typeof WIRES];
  const recorded = () => {
    const texts = [`#script ${JSON.stringify(SCRIPT)}`];
    const { path, body } = wire.request({ texts, stream });
    const headers = { "content-type": "application/json" };
    return ask(model.url + path, { headers, body: JSON.stringify(body) });
  };
  const read = (bytes: Buffer, size: number, type: string) => {
    const reading = new AnswerReader(reader, type);
    for (let at = 0; at < bytes.length; at += size) reading.write(bytes.subarray(at, at + size));
    reading.end();
    return reading.facts;
  };

  it("gives the same facts however the bytes are cut", async () => {
    const got = await recorded();
    const bytes = Buffer.concat(got.chunks);
    const type = String(got.headers["content-type"]);
    const whole = read(bytes, bytes.length, type);
    expect(whole).toMatchObject({ isDone: true, stopReason: STOPS[wire.id as keyof typeof STOPS] });
    expect(whole.usage).toMatchObject(USAGE);
    expect(whole.responseId).toBeTypeOf("string");
    for (const size of [1, 2, 3, 7, 64, 1_000]) expect(read(bytes, size, type)).toEqual(whole);
  });

  it("reads garbage without a failure", () => {
    for (const text of [
      "",
      "data: {",
      "data: [1,2",
      "null",
      "[[]]",
      '{"usage":{"input_tokens":-3}}',
      "\0\xff",
    ])
      for (const type of ["text/event-stream", "application/json"])
        expect(read(Buffer.from(text, "latin1"), 2, type).usage ?? {}).toEqual({});
  });
});

const facts = (wire: typeof anthropic, body: object, path = "/v1/messages", headers = {}) =>
  wire.readRequest({ path, headers, body: body as Record<string, unknown> });

/** The headers of a request of Codex. */
const toTurn = (more: object) => ({
  "x-codex-turn-metadata": JSON.stringify({ agent_name: "/root", thread_id: "t-1", ...more }),
});
const readCodex = (headers: Record<string, string>) =>
  responses.readRequest({ path: "/v1/responses", headers, body: {} });

describe("requests", () => {
  it("tell the sub-agent and the attempt of Claude Code", () => {
    const headers = { "x-claude-code-agent-id": "agent-7", "x-stainless-retry-count": "2" };
    expect(facts(anthropic, { model: "claude-x", tools: [{}] }, "/v1/messages", headers)).toEqual({
      model: "claude-x",
      agentId: "agent-7",
      attempt: 3,
      kind: "turn",
    });
  });

  it("10: tell the sub-agents of Codex, and the sessions of Grok Build and OpenCode", () => {
    expect(readCodex(toTurn({}))).not.toHaveProperty("agentId");
    expect(readCodex(toTurn({ thread_id: "t-2", parent_thread_id: "t-1" }))).toMatchObject({
      agentId: "t-2",
    });
    for (const name of ["x-grok-session-id", "x-session-id"]) {
      const facts = chat.readRequest({ path: "/v1/chat/completions", headers: { [name]: "s-1" }, body: {} });
      expect(facts).toMatchObject({ sessionId: "s-1" });
    }
  });

  it("9: tell a title that is asked for with one tool, as Grok Build does", () => {
    const system = "You are tasked with generating the session title. The user is asking about code.";
    const messages = [
      { role: "system", content: system },
      { role: "user", content: "hello" },
    ];
    const kindOf = (tools: number) =>
      chat.readRequest({
        path: "/v1/chat/completions",
        headers: {},
        body: { messages, tools: Array.from({ length: tools }, () => ({ type: "function" })) },
      }).kind;
    expect([0, 1, 2].map(kindOf)).toEqual(["title", "title", "turn"]);
  });

  it("tell side calls apart", () => {
    const title = { system: "You are a title generator.", messages: [{ role: "user", content: "hi" }] };
    expect(facts(anthropic, title).kind).toBe("title");
    expect(facts(chat, { messages: [{ role: "system", content: "Generate a short title" }] }).kind).toBe(
      "title",
    );
    expect(facts(responses, { instructions: "Generate a title" }, "/responses").kind).toBe("title");
    expect(facts(responses, {}, "/responses/compact").kind).toBe("compact");
    expect(facts(gemini, {}, "/v1beta/models/gemini-x:countTokens")).toEqual({
      model: "gemini-x",
      kind: "count",
    });
    const router = { generationConfig: { responseMimeType: "application/json" } };
    expect(facts(gemini, router, "/v1beta/models/gemini-x:generateContent").kind).toBe("probe");
  });

  it("keep names that could break a log out of the facts", () => {
    expect(facts(chat, { model: "a\nb" })).not.toHaveProperty("model");
    expect(facts(chat, { model: "x".repeat(500) })).not.toHaveProperty("model");
  });
});

describe("Anthropic's counts", () => {
  it("keep writes to the cache for an hour apart, and take the latest value of each", () => {
    const start = {
      type: "message_start",
      message: {
        id: "msg_1",
        model: "claude-x",
        usage: {
          input_tokens: 5,
          output_tokens: 1,
          cache_creation_input_tokens: 70,
          cache_read_input_tokens: 8,
          cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 40 },
        },
      },
    };
    const delta = { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 99 } };
    const facts = [start, delta].reduce((before, event) => anthropic.readAnswer(before, event), {});
    expect(facts).toMatchObject({
      usage: {
        input_tokens: 5,
        output_tokens: 99,
        cache_read_tokens: 8,
        cache_write_tokens: 70,
        cache_write_1h_tokens: 40,
      },
    });
  });
});
