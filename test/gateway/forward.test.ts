import { createHash } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { Readable } from "node:stream";
import { afterEach, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { WIRES } from "../model/wires.ts";
import { ask, KEY, type Lab, listen, openLab, portOf } from "./lab.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function openModel(): Promise<ScriptedModel> {
  const model = await createScriptedModel();
  closers.push(() => model.close());
  return model;
}

async function open(upstream: string, options?: Parameters<typeof openLab>[1]): Promise<Lab> {
  const lab = await openLab(upstream, options);
  closers.push(() => lab.close());
  return lab;
}

async function serve(listener: RequestListener): Promise<Server> {
  const server = await listen(createServer(listener));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

const toHash = (bytes: Buffer | string) => createHash("sha256").update(bytes).digest("hex");
const script = (steps: unknown[]) => `#script ${JSON.stringify(steps)}`;

describe.each(WIRES)("$id", (wire) => {
  it("6: passes 50 requests and answers byte for byte", async () => {
    const model = await openModel();
    const got = new Map<string, string>();
    const recorder = await serve(async (incoming, outgoing) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
      const body = Buffer.concat(chunks);
      const {
        status,
        headers,
        chunks: answer,
      } = await ask(model.url + String(incoming.url), {
        headers: { "content-type": "application/json" },
        body,
      });
      got.set(toHash(body), toHash(Buffer.concat(answer)));
      outgoing.writeHead(status, { "content-type": headers["content-type"] ?? "" });
      for (const chunk of answer) outgoing.write(chunk);
      outgoing.end();
    });
    const lab = await open(`http://127.0.0.1:${portOf(recorder)}`);
    for (let at = 0; at < 50; at++) {
      const texts = [
        script([{ think: `no. ${at}` }, { say: `wörd ${"x".repeat(at * 37)}`, chunks: at + 1 }]),
      ];
      const { path, body } = wire.request({ texts, stream: at % 2 === 0 });
      // Blanks and unusual escapes are kept: nothing is encoded again.
      const text = JSON.stringify(body, undefined, at % 3).replace("wörd", "w\\u00f6rd");
      const answer = await ask(lab.url + path, { headers: { "x-api-key": lab.token }, body: text });
      expect(answer.status).toBe(200);
      expect(got.get(toHash(text))).toBe(toHash(Buffer.concat(answer.chunks)));
    }
    const ends = lab.records().filter((record) => record.type === "ended");
    expect(ends).toHaveLength(50);
    expect(ends.every((end) => end.usage !== undefined && end.status === 200)).toBe(true);
  });

  it("records start, first byte and end before the agent can know the end", async () => {
    const model = await openModel();
    const lab = await open(model.url);
    const usage = { input_tokens: 9, output_tokens: 4, cache_read_tokens: 2 };
    const { path, body } = wire.request({ texts: [script([{ say: "one two" }, { usage }])], stream: true });
    const answer = await ask(lab.url + path, {
      headers: { "x-api-key": lab.token },
      body: JSON.stringify(body),
    });
    expect(answer.isCut).toBe(false);
    const records = lab.records();
    expect(records.map(({ type }) => type)).toEqual(["started", "first", "ended"]);
    expect(records[0]).toMatchObject({ wire: wire.id, provider: "test", attempt: 1 });
    expect(records[2]).toMatchObject({ usage, served: "provider", status: 200 });
  });

  it("refuses in its own form what is no model call", async () => {
    const lab = await open("http://127.0.0.1:9");
    const { path } = wire.request({ texts: [""], stream: false });
    for (const [method, url] of [
      ["POST", `${path}/../files`],
      ["DELETE", path],
      ["GET", "/v1/files"],
      ["POST", "/v1/embeddings"],
      ["POST", `/%2e%2e${path}`],
      ["POST", `/${path}`],
    ] as const) {
      const { status, body } = await ask(lab.url + url, { method, headers: { "x-api-key": lab.token } });
      expect([status, url]).toEqual([403, url]);
      expect(JSON.parse(body)).toHaveProperty("error.message");
    }
    const wrong = await ask(lab.url + path, { headers: { "x-api-key": "sess_other" }, body: "{}" });
    expect(wrong.status).toBe(401);
    const shape = JSON.parse(wrong.body) as { type?: string; error: { status?: string; type?: string } };
    if (wire.id === "anthropic")
      expect(shape).toMatchObject({ type: "error", error: { type: "authentication_error" } });
    if (wire.id === "gemini")
      expect(shape).toMatchObject({ error: { code: 401, status: "UNAUTHENTICATED" } });
    if (wire.id === "chat") expect(shape).toMatchObject({ error: { type: "invalid_request_error" } });
    expect(lab.records().every(({ type }) => type === "refused")).toBe(true);
  });
});

describe("credentials", () => {
  it("of the agent never reach the provider, and the key never reaches the agent or the records", async () => {
    const seen: string[] = [];
    const echo = await serve((incoming, outgoing) => {
      seen.push(JSON.stringify(incoming.rawHeaders) + String(incoming.url));
      outgoing.writeHead(401, { "x-echo": String(incoming.headers["x-api-key"]), "set-cookie": "a=b" });
      outgoing.end(JSON.stringify({ error: `bad key ${String(incoming.headers["x-api-key"])}` }));
    });
    const lab = await open(`http://127.0.0.1:${portOf(echo)}`);
    const headers = {
      authorization: `Bearer ${lab.token}`,
      cookie: "session=agent",
      "proxy-authorization": "Basic agent",
      "x-goog-api-key": "agent-key",
      "anthropic-beta": "some-beta-2026",
    };
    const answer = await ask(`${lab.url}/v1/messages?beta=true&key=agent`, { headers, body: "{}" });
    expect(seen).toHaveLength(1);
    expect(seen[0]).toContain(KEY);
    expect(seen[0]).toContain("some-beta-2026");
    expect(seen[0]).not.toMatch(/agent|sess_/);
    expect(answer.status).toBe(401);
    expect(JSON.stringify(answer.headers) + answer.body).not.toContain(KEY);
    expect(answer.headers).not.toHaveProperty("set-cookie");
    expect(lab.text()).not.toContain(KEY);
    expect(lab.text()).not.toContain(lab.token);
    expect(lab.records().at(-1)).toMatchObject({ type: "ended", status: 401, error: "status_401" });
  });

  it("stay valid while the engine is away, and are asked for again when it is back", async () => {
    const model = await openModel();
    const lab = await open(model.url);
    const headers = { "x-api-key": lab.token };
    const body = JSON.stringify(WIRES[0]?.request({ texts: [script([{ say: "x" }])], stream: true }).body);
    expect((await ask(`${lab.url}/v1/messages`, { headers, body })).status).toBe(200);
    lab.desk.isDown = true;
    expect((await ask(`${lab.url}/v1/messages`, { headers, body })).status).toBe(200);
  });

  it("that the engine never gave are a refusal that can be retried", async () => {
    const lab = await open("http://127.0.0.1:9");
    lab.desk.isDown = true;
    const answer = await ask(`${lab.url}/v1/messages`, { headers: { "x-api-key": lab.token }, body: "{}" });
    expect(answer.status).toBe(503);
    expect(answer.headers["retry-after"]).toBe("2");
  });
});

describe("failures", () => {
  it("of a provider that cannot be reached, and of a stream that breaks off, are ends of their own", async () => {
    const lab = await open("http://127.0.0.1:9");
    const headers = { "x-api-key": lab.token };
    expect((await ask(`${lab.url}/v1/messages`, { headers, body: "{}" })).status).toBe(502);
    expect(lab.records().at(-1)).toMatchObject({ type: "ended", error: "unreachable" });

    const breaking = await serve((incoming, outgoing) => {
      incoming.resume();
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.write('event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n', () =>
        outgoing.destroy(),
      );
    });
    const cut = await open(`http://127.0.0.1:${portOf(breaking)}`);
    const answer = await ask(`${cut.url}/v1/messages`, { headers: { "x-api-key": cut.token }, body: "{}" });
    expect(answer.isCut).toBe(true);
    expect(cut.records().at(-1)).toMatchObject({ type: "ended", error: "cut", response: "m" });
  });

  it("are followed by retries, which name them", async () => {
    const model = await openModel();
    const lab = await open(model.url);
    const texts = [script([{ fail: { kind: "overloaded", times: 1 } }, { say: "again" }])];
    const body = JSON.stringify(WIRES[0]?.request({ texts, stream: true }).body);
    const send = () => ask(`${lab.url}/v1/messages`, { headers: { "x-api-key": lab.token }, body });
    expect([(await send()).status, (await send()).status]).toEqual([529, 200]);
    const [first, , , second] = lab.records().filter(({ type }) => type !== "first");
    const starts = lab.records().filter((record) => record.type === "started");
    expect(starts[1]).toMatchObject({ attempt: 2, retryOf: starts[0]?.id });
    expect([first?.type, second?.type]).toEqual(["started", "ended"]);
  });

  it("of the agent, which goes away, end the provider's work", async () => {
    const isClosed = new EventEmitter();
    const closed = once(isClosed, "closed");
    const endless = await serve((incoming, outgoing) => {
      incoming.resume();
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.write(": wait\n\n");
      outgoing.on("close", () => isClosed.emit("closed"));
    });
    const lab = await open(`http://127.0.0.1:${portOf(endless)}`);
    const abort = new AbortController();
    const answer = await fetch(`${lab.url}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": lab.token },
      body: "{}",
      signal: abort.signal,
    });
    expect(answer.status).toBe(200);
    abort.abort();
    await closed;
    expect(lab.records().at(-1)).toMatchObject({ type: "ended", error: "cancelled" });
  });
});

it("lets something else than the provider answer", async () => {
  const lab = await open("http://127.0.0.1:9", {
    answerer: {
      answer: async ({ body }) => ({
        status: 200,
        headers: { "content-type": ["application/json"] },
        body: Readable.from([
          Buffer.from(`{"type":"message","id":"r","usage":{"output_tokens":${body.length}}}`),
        ]),
        servedBy: "cassette",
      }),
    },
  });
  await ask(`${lab.url}/v1/messages`, { headers: { "x-api-key": lab.token }, body: "{ }" });
  expect(lab.records().at(-1)).toMatchObject({ served: "cassette", usage: { output_tokens: 3 } });
});
