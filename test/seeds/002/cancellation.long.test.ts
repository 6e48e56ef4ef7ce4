import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SluiceEvent } from "../../../src/contract/index.ts";
import { createNdjsonParser, REPLAY_TURN_LIMIT } from "../../../src/dialects/ndjson/index.ts";
import { collect, type Sse } from "../../dialects/ndjson/streams.ts";
import { SseReader } from "../../http/sse-reader.ts";
import { processesWith, script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { type ChatBackend, startChatBackend } from "./chat-backend.ts";

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
