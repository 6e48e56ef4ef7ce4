import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type AssistantSandboxNDJSONLine,
  createNdjsonTap,
  parseLine,
} from "../../../src/dialects/ndjson/index.ts";
import type { Sse } from "../../dialects/ndjson/streams.ts";
import { expectTurn, stepsOf } from "../../dialects/ndjson/turn-laws.ts";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { type ChatBackend, startChatBackend } from "./chat-backend.ts";

let server: TestServer;
let backend: ChatBackend;
beforeAll(async () => {
  server = await startServer();
  const url = `${server.url}/ndjson`;
  backend = await startChatBackend({ url, token: server.token, body: (prompt) => ({ prompt }) });
});
afterAll(async () => {
  await backend.close();
  await server.close();
});

const post = (path: string, body: object, init: RequestInit = {}): Promise<Response> =>
  server.fetch(`/ndjson${path}`, { method: "POST", body: JSON.stringify(body), ...init });

async function stream(...steps: unknown[]): Promise<{ text: string; lines: AssistantSandboxNDJSONLine[] }> {
  const text = await (await post("/stream", { prompt: script(...steps) })).text();
  return { text, lines: text.trimEnd().split("\n").map(parseLine) };
}

async function sse(...steps: unknown[]): Promise<Sse[]> {
  const prompt = encodeURIComponent(script(...steps));
  return framesOf(await (await fetch(`${backend.url}/?prompt=${prompt}`)).text());
}

function framesOf(text: string): Sse[] {
  return text
    .split("\n\n")
    .map((block) => /^event: (\w+)\nid: ([\d.]+)\ndata: (.*)$/.exec(block))
    .filter((match) => match !== null)
    .map(([, event = "", id = "", data = ""]) => ({ event, id, data: JSON.parse(data) }));
}

/** Compiles only for a union that is discriminated by `type`. */
function toWord(line: AssistantSandboxNDJSONLine): string {
  switch (line.type) {
    case "log":
      return line.level;
    case "step":
      return line.status;
    case "result":
      return line.message;
    case "error":
      return line.code;
  }
}

describe("the envelope", () => {
  it("A sandbox run streams NDJSON: one JSON object per line, no SSE framing on the wire", async () => {
    const response = await post("/stream", { prompt: script({ shell: "echo hi" }, { say: "done" }) });
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const text = await response.text();
    expect(text).not.toMatch(/^(data|event|id|retry|:)/m);
    for (const line of text.trimEnd().split("\n")) expect(JSON.parse(line)).toBeTypeOf("object");
  });

  it("The chat backend parses each line and translates it to SSE for the browser", async () => {
    const frames = await sse({ shell: "echo hi" }, { say: "done" });
    expect(frames.map(({ event }) => event)).toEqual(["step", "step", "result", "done"]);
  });

  it("The Agents block forwards NDJSON straight into the workflow run stream", async () => {
    const response = await post("/stream", { prompt: script({ shell: "echo hi" }, { say: "the response" }) });
    const tap = createNdjsonTap();
    const [upstream, body] = (response.body as ReadableStream<Uint8Array>).tee();
    const [before, after] = await Promise.all([
      new Response(upstream).text(),
      new Response(body.pipeThrough(tap)).text(),
    ]);
    expect(after).toBe(before);
    expect(await tap.response).toBe("the response");
  });

  it("The line types are a discriminated union", async () => {
    const { lines } = await stream({ shell: "true" }, { say: "done" });
    expect(lines.map(toWord).slice(-3)).toEqual(["running", "succeeded", "done"]);
  });

  it("Every line has a type and an optional ts (Unix epoch ms)", async () => {
    const before = Date.now();
    const { lines } = await stream({ say: "done" });
    for (const { ts = 0 } of lines) expect(ts).toBeGreaterThanOrEqual(before);
    expect(parseLine('{"type":"result","message":"without"}')).toEqual({
      type: "result",
      message: "without",
    });
  });

  it("Unknown type values are rejected defensively", () => {
    expect(() => parseLine('{"type":"delta","text":"x"}')).toThrow(/"delta"/);
  });

  it.each([
    [{ type: "log", level: "info", message: "Loaded 3 skills", ts: 1700000000000 }],
    [
      {
        type: "step",
        id: "step_8f3...",
        name: "recipes/add-node.sh",
        status: "running",
        args: { nodeType: "inference" },
        ts: 1700000000123,
      },
    ],
    [
      {
        type: "step",
        id: "step_8f3...",
        name: "recipes/add-node.sh",
        status: "succeeded",
        result: { nodeId: "node_..." },
        durationMs: 412,
        ts: 1700000000535,
      },
    ],
    [{ type: "result", message: "Added an Inference node…", ts: 1700000000999 }],
    [{ type: "error", code: "model_timeout", message: "Provider timed out after 60s", ts: 1700000001000 }],
  ])("the page's own line %j", (line) => {
    expect(parseLine(JSON.stringify(line))).toEqual(line);
  });
});

describe("log", () => {
  it("level is debug | info | warn | error", async () => {
    const { lines } = await stream(
      { think: "hm" },
      { raw: "junk" },
      { ask: { shell: "true" } },
      { say: "x" },
    );
    const levels = new Set(lines.flatMap((line) => (line.type === "log" ? [line.level] : [])));
    expect([...levels].toSorted()).toEqual(["debug", "error", "info", "warn"]);
  });

  it("The chat backend filters logs out of the SSE stream; they appear in run traces only", async () => {
    const before = backend.trace.length;
    const frames = await sse({ think: "a thought of its own" }, { say: "done" });
    expect(frames.map(({ event }) => event)).toEqual(["result", "done"]);
    expect(backend.trace.slice(before)).toContain("a thought of its own");
  });
});

describe("step", () => {
  it("is emitted at least twice: running when the call starts, succeeded or failed when it ends", async () => {
    const { lines } = await stream({ shell: "true" }, { shell: "false" }, { say: "done" });
    expectTurn(lines);
    expect(stepsOf(lines).map(({ status }) => status)).toEqual(["running", "succeeded", "running", "failed"]);
  });

  it("The frontend correlates by id so the same row updates rather than appending duplicates", async () => {
    const rows = new Map<string, string>();
    const frames = await sse({ parallel: [{ shell: "echo 1" }, { shell: "echo 2" }] }, { say: "done" });
    for (const { event, data } of frames) {
      const { id, status } = data as { id: string; status: string };
      if (event === "step") rows.set(id, status);
    }
    expect([...rows.values()]).toEqual(["succeeded", "succeeded"]);
  });

  it("name is the tool; args is the model-emitted call arguments; result is the tool's return value", async () => {
    const { lines } = await stream(
      { write: { path: "a.txt", content: "x" } },
      { read: "a.txt" },
      { say: "done" },
    );
    expect(stepsOf(lines)).toMatchObject([
      { name: "write", status: "running", args: { path: "a.txt", content: "x" } },
      { name: "write", status: "succeeded", result: expect.stringContaining("a.txt") },
      { name: "read", status: "running", args: { path: "a.txt" } },
      { name: "read", status: "succeeded", result: "x" },
    ]);
  });

  it("On failed, error carries the message", async () => {
    const { lines } = await stream({ read: "missing.txt" }, { say: "done" });
    expect(stepsOf(lines)[1]).toMatchObject({
      status: "failed",
      error: expect.stringContaining("missing.txt"),
    });
  });
});

describe("result", () => {
  it("is emitted exactly once per turn, after the last step", async () => {
    const { lines } = await stream({ say: "not yet" }, { shell: "true" }, { say: "the final message" });
    expectTurn(lines);
    expect(lines.at(-1)).toMatchObject({ type: "result", message: "the final message" });
  });

  it("is persisted onto the conversation as the assistant message; a terminating SSE event follows", async () => {
    const chat = await post("/chat", { conversation: "kept", prompt: script({ say: "kept words" }) });
    const { stream: path } = (await chat.json()) as { stream: string };
    const frames = framesOf(await (await fetch(server.url + path)).text());
    expect(frames.slice(-2).map(({ event }) => event)).toEqual(["result", "done"]);
    const found = await (await server.fetch("/ndjson/conversations/kept")).json();
    expect(found).toMatchObject({
      messages: [{ role: "user" }, { role: "assistant", content: "kept words" }],
    });
  });
});

describe("error", () => {
  it("is emitted in place of result when there is no final message, and closes the stream", async () => {
    const { lines } = await stream({ shell: "true" }, { fail: { kind: "terminal" } });
    expectTurn(lines);
    expect(lines.at(-1)).toMatchObject({
      type: "error",
      code: expect.any(String),
      message: expect.any(String),
    });
    const frames = await sse({ fail: { kind: "terminal" } });
    expect(frames.map(({ event }) => event)).toEqual(["error", "done"]);
  });
});
