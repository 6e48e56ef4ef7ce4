import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SluiceEvent } from "../../../src/contract/index.ts";
import {
  type AssistantSandboxNDJSONLine,
  createNdjsonParser,
  createNdjsonTap,
  parseLine,
  REPLAY_TURN_LIMIT,
} from "../../../src/dialects/ndjson/index.ts";
import { collect, type Sse } from "../../dialects/ndjson/streams.ts";
import { expectTurn, stepsOf } from "../../dialects/ndjson/turnLaws.ts";
import { SseReader } from "../../http/sseReader.ts";
import { processesWith, script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { type ChatBackend, startChatBackend } from "./chatBackend.ts";

const run = promisify(execFile);
const BIN = resolve(import.meta.dirname, "../../../bin/sluice");

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

async function eventsOf(session: string): Promise<SluiceEvent[]> {
  const all: SluiceEvent[] = [];
  for await (const event of server.client.events.iterate(session, { after: 0, extensions: true }))
    all.push(event);
  return all;
}

async function endOf(session: string): Promise<EventOf<"turn.ended">> {
  for await (const event of server.client.subscribe(session, { after: 0, extensions: true })) {
    if (event.type === "turn.ended") return event;
  }
  throw new Error("the session ended without its turn's end");
}

/** Compiles only for a union that its `type` tells apart. */
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

describe("cancellation", () => {
  const begin = async (signal: AbortSignal, seconds: number): Promise<Response> =>
    post("/stream", { prompt: script({ shell: `echo on; sleep ${seconds}` }, { say: "never" }) }, { signal });
  const heldBy = async (seconds: number): Promise<string> => {
    for await (const session of server.client.sessions.iterate()) {
      const events = await eventsOf(session.sessionId);
      if (events.some((event) => JSON.stringify(event.data).includes(`sleep ${seconds}`)))
        return session.sessionId;
    }
    throw new Error("nobody runs it");
  };

  it("Assistant: the browser closes, the backend's signal aborts, the upstream fetch is cancelled, the sandbox's work ends", async () => {
    const prompt = encodeURIComponent(script({ shell: "echo on; sleep 8181" }, { say: "never" }));
    const browser = await SseReader.open(`${backend.url}/?prompt=${prompt}`);
    await browser.until((text) => text.includes('"running"'));
    const upstream = backend.ends.at(-1);
    browser.cut();
    expect(await upstream).toBe(false);
    const session = await heldBy(8181);
    expect((await endOf(session)).data.status).toBe("interrupted");
    await expect.poll(() => processesWith("sleep 8181"), { timeout: 30_000 }).toEqual([]);
    await expect.poll(() => processesWith(`spools/${session}/`), { timeout: 30_000 }).toEqual([]);
  });

  it("Agents block: the workflow is cancelled, its signal goes into fetch, the next line read fails", async () => {
    const workflow = new AbortController();
    const response = await begin(workflow.signal, 8282);
    const session = response.headers.get("sluice-conversation") ?? "";
    const lines = (response.body as ReadableStream<Uint8Array>).pipeThrough(createNdjsonParser()).getReader();
    let line = await lines.read();
    while (line.value?.type !== "step") line = await lines.read();
    workflow.abort();
    await expect(lines.read()).rejects.toThrow();
    expect((await endOf(session)).data).toMatchObject({ status: "interrupted" });
    await expect.poll(() => processesWith("sleep 8282"), { timeout: 30_000 }).toEqual([]);
    const events = await eventsOf(session);
    // Any in-progress sandbox work is lost: there is no checkpoint protocol.
    expect(events.filter(({ type }) => type === "checkpoint.created")).toEqual([]);
    const kept = (await (await server.fetch(`/ndjson/conversations/${session}`)).json()) as {
      messages: object[];
    };
    expect(kept.messages).toHaveLength(1);
  });

  it("Cancellation does not refund the upload OTP: assets are not written back, it expires unused", async () => {
    const abort = new AbortController();
    const response = await begin(abort.signal, 8383);
    const otp = response.headers.get("sluice-upload-otp") ?? "";
    const session = response.headers.get("sluice-conversation") ?? "";
    abort.abort();
    await endOf(session);
    const form = new FormData();
    form.append("file", new Blob(["x"]), "a.txt");
    const headers = { authorization: `Bearer ${otp}` };
    const refused = await fetch(`${server.url}/ndjson/results`, { method: "POST", body: form, headers });
    expect(refused.status).toBe(412);
    expect(await (await server.fetch(`/ndjson/conversations/${session}/assets`)).json()).toMatchObject({
      assets: [],
    });
  });
});

describe("the replay limit", () => {
  it("The last 20 turns go along per dispatch; older history is omitted", async () => {
    expect(REPLAY_TURN_LIMIT).toBe(20);
    const messages = Array.from({ length: 23 }, (_, index) => [
      { role: "user", content: `turn ${index + 1}` },
      { role: "assistant", content: "yes" },
    ]).flat();
    const response = await post("/stream", { messages, prompt: script({ say: "$history" }) });
    const last = (
      await collect((response.body as ReadableStream<Uint8Array>).pipeThrough(createNdjsonParser()))
    ).at(-1);
    const wanted = Array.from({ length: 20 }, (_, index) => `turn ${index + 4}`).join("\n");
    expect(last).toMatchObject({ type: "result", message: wanted });
  });
});

describe("beyond the page", () => {
  it("what was streamed is what an export gives, byte for byte", async () => {
    const texts: string[] = [];
    for (const steps of [
      [{ shell: "echo é" }, { say: "one" }],
      [{ parallel: [{ shell: "a" }, { read: "b" }] }],
    ]) {
      const response = await post("/stream", { conversation: "archive", prompt: script(...steps) });
      texts.push(await response.text());
    }
    const args = ["export", "archive", "--as", "ndjson", "--data", server.data];
    const { stdout } = await run(BIN, args, { maxBuffer: 1 << 26 });
    expect(stdout).toBe(texts.join(""));
  });

  it("a server that is killed in mid-turn loses no line of it", async () => {
    const steps = [{ shell: "echo on; sleep 3" }, { say: "after all" }];
    const chat = await post("/chat", { conversation: "killed", prompt: script(...steps) });
    const { stream: path } = (await chat.json()) as { stream: string };
    const before = await SseReader.open(server.url + path);
    await before.until((text) => text.includes('"running"'));
    await server.kill();
    await server.start();
    const id = framesOf(before.text).at(-1)?.id ?? "";
    const after = await fetch(server.url + path, { headers: { "last-event-id": id } });
    const frames = [...framesOf(before.text), ...framesOf(await after.text())];
    expect(frames.map(({ event }) => event)).toEqual(["step", "step", "result", "done"]);
    const fresh = framesOf(await (await fetch(server.url + path)).text());
    expect(fresh).toEqual(frames);
  });
});
