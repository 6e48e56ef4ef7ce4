import { calcPrice } from "@pydantic/genai-prices";
import { createHash } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { createPricing } from "../../src/gateway/pricing.ts";
import { toFrame } from "./clouds.ts";
import { ask, type Lab, listen, openLab, portOf } from "./lab.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function open(upstream: string): Promise<Lab> {
  const lab = await openLab(upstream);
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

interface Seen {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A gateway in front of a provider that keeps what it gets, and answers with `answer`. */
async function openFront(
  answer: (seen: Seen) => { type: string; chunks: Buffer[]; status?: number; headers?: object },
) {
  const seen: Seen[] = [];
  const server = await serve(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
    const { url = "", headers } = incoming;
    const last = { url, headers, body: Buffer.concat(chunks) };
    seen.push(last);
    const made = answer(last);
    outgoing.writeHead(made.status ?? 200, { "content-type": made.type, ...made.headers });
    for (const chunk of made.chunks) outgoing.write(chunk);
    outgoing.end();
  });
  const lab = await open(`http://127.0.0.1:${portOf(server)}`);
  return { lab, seen };
}

const VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models/m";

/** The parts of a streamed answer in Anthropic's events, of a length that depends on `at`. */
const eventsOf = (at: number): string[] =>
  [
    { type: "message_start", message: { id: `msg_${at}`, model: "m", usage: { input_tokens: 5 + at } } },
    { type: "ping" },
    ...Array.from({ length: at + 1 }, (_, index) => ({
      type: "content_block_delta",
      index: 0,
      delta: { type: "text_delta", text: `wörd ${index} ${"x".repeat(at * 11)}` },
    })),
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 7 } },
    { type: "message_stop" },
  ].map((event) => JSON.stringify(event));

const toSse = (event: string): Buffer =>
  Buffer.from(`event: ${(JSON.parse(event) as { type: string }).type}\ndata: ${event}\n\n`);

/** The wires of the other four are in forward.test.ts. */
describe.each([
  {
    wire: "bedrock",
    path: "/model/eu.anthropic.claude-v1%3A0/invoke-with-response-stream",
    type: "application/vnd.amazon.eventstream",
    encode: (event: string) => toFrame(event),
  },
  { wire: "vertex", path: `${VERTEX}:streamRawPredict`, type: "text/event-stream", encode: toSse },
])("$wire", ({ wire, path, type, encode }) => {
  it("6: passes 50 requests and answers byte for byte, chunk by chunk", async () => {
    let at = 0;
    const { lab, seen } = await openFront(() => ({ type, chunks: eventsOf(at).map(encode) }));
    for (; at < 50; at++) {
      const body = `{"anthropic_version" : "bedrock-2023-05-31",\n "messages":[{"role":"user","content":"w\\u00f6rd ${"y".repeat(at * 37)}"}]}`;
      const got = await ask(lab.url + path, { headers: { "x-api-key": lab.token }, body });
      expect(got.status).toBe(200);
      expect(toHash(seen.at(-1)?.body ?? "")).toBe(toHash(body));
      expect(toHash(Buffer.concat(got.chunks))).toBe(toHash(Buffer.concat(eventsOf(at).map(encode))));
    }
    const ends = lab.records().filter((record) => record.type === "ended");
    expect(ends).toHaveLength(50);
    for (const [index, end] of ends.entries())
      expect(end).toMatchObject({ wire, usage: { input_tokens: 5 + index, output_tokens: 7 } });
  });
});

describe("the session's token", () => {
  it("2: gets nothing from another session's gateway, and nothing from the engine's desk", async () => {
    const { lab: own } = await openFront(() => ({ type: "application/json", chunks: [Buffer.from("{}")] }));
    const { lab: other, seen } = await openFront(() => ({ type: "application/json", chunks: [] }));
    const { token } = own;
    const headers = { "x-api-key": token };
    expect((await ask(`${own.url}/v1/messages`, { headers, body: "{}" })).status).toBe(200);
    for (const headers of [{ "x-api-key": token }, { authorization: `Bearer ${token}` }, {}])
      expect((await ask(`${other.url}/v1/messages`, { headers, body: "{}" })).status).toBe(401);
    expect(seen).toEqual([]);
    for (const nonce of ["", "0123456789abcdef0123456789abcdef"]) {
      const headers = { "sluice-nonce": nonce, authorization: `Bearer ${own.token}` };
      const { status, body } = await ask(own.deskUrl, { method: "GET", headers });
      expect([status, body]).toEqual([401, ""]);
    }
  });
});

/** Dollars for a million tokens, from the providers' lists: input, output, cache read, cache write, write for an hour. */
const PRICES = `
  anthropic claude-opus-4-5 5 25 0.5 6.25 10
  anthropic claude-opus-4-1 15 75 1.5 18.75 30
  anthropic claude-opus-4-0 15 75 1.5 18.75 30
  anthropic claude-sonnet-4-5 3 15 0.3 3.75 6
  anthropic claude-sonnet-4-0 3 15 0.3 3.75 6
  anthropic claude-haiku-4-5 1 5 0.1 1.25 2
  anthropic claude-3-5-haiku-latest 0.8 4 0.08 1
  anthropic claude-3-haiku-20240307 0.25 1.25 0.03 0.3
  openai gpt-5 1.25 10 0.125
  openai gpt-5-mini 0.25 2 0.025
  openai gpt-5-nano 0.05 0.4 0.005
  openai gpt-4.1 2 8 0.5
  openai gpt-4.1-mini 0.4 1.6 0.1
  openai gpt-4.1-nano 0.1 0.4 0.025
  openai gpt-4o 2.5 10 1.25
  openai gpt-4o-mini 0.15 0.6 0.075
  openai o3 2 8 0.5
  openai o4-mini 1.1 4.4 0.275
  openai o3-mini 1.1 4.4 0.55
  openai o1 15 60 7.5
  openai gpt-4-turbo 10 30
  openai gpt-3.5-turbo 0.5 1.5
  google gemini-2.5-pro 1.25 10 0.125
  google gemini-2.5-flash 0.3 2.5 0.03
  google gemini-2.5-flash-lite 0.1 0.4 0.01
  google gemini-2.0-flash 0.1 0.4 0.025
  google gemini-2.0-flash-lite 0.075 0.3
  xai grok-4 3 15 0.75
  xai grok-3 3 15
  xai grok-3-mini 0.3 0.5
  xai grok-code-fast-1 0.2 1.5 0.02
  xai grok-4-fast 0.2 0.5 0.05
`
  .trim()
  .split("\n")
  .map((line) => line.trim().split(" "));

describe("the cost of a request", () => {
  const pricing = createPricing({}, { calcPrice });
  const time = Date.parse("2026-11-01T00:00:00Z");
  it.each(PRICES)("11: of %s %s is that of the hand-made table", (provider = "", model = "", ...prices) => {
    const [input = 0, output = 0, read, write, hour] = prices.map(Number);
    const usage = {
      input_tokens: 1_234,
      output_tokens: 567,
      ...(read !== undefined && { cache_read_tokens: 8_900 }),
      ...(write !== undefined && { cache_write_tokens: 3_000 }),
      ...(hour !== undefined && { cache_write_1h_tokens: 1_000 }),
    };
    const written = hour === undefined ? 3_000 * (write ?? 0) : 2_000 * (write ?? 0) + 1_000 * hour;
    const expected = (1_234 * input + 567 * output + 8_900 * (read ?? 0) + written) / 1_000_000;
    const { costUsd, table } = pricing({ provider, model, usage, time });
    expect(table).toBe("genai-prices");
    expect(costUsd).toBeCloseTo(expected, 10);
  });

  it("11: of 30 models and more from four providers is known, and never 0 where it is not", () => {
    expect(PRICES.length).toBeGreaterThanOrEqual(30);
    expect(new Set(PRICES.map(([provider]) => provider)).size).toBe(4);
    const usage = { input_tokens: 1, output_tokens: 1 };
    expect(pricing({ provider: "openai", model: "gpt-none-7", usage, time })).toEqual({ table: "unknown" });
  });
});

/**
 * The contract between Claude Code and a gateway, as its documentation (llm-gateway-protocol) has it: what is to be
 * forwarded unchanged, for each API.
 */
const BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14, context-1m-2025-08-07";
const HEADERS = {
  "anthropic-beta": BETAS,
  "anthropic-version": "2023-06-01",
  // These a gateway may consume. Ours consumes none, so that another one behind it can.
  "x-claude-code-session-id": "3f0c2c52-0000-4000-8000-000000000000",
  "x-claude-code-agent-id": "a56a622de74c5e79f",
  "x-app": "cli",
  "user-agent": "claude-cli/2.1.325 (external, cli)",
};
const BODY = `{
 "model":"m", "anthropic_version":"vertex-2023-10-16", "anthropic_beta":["a-2025-01-01","b-2025-01-01"],
 "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=00000;"},
  {"type":"text","text":"p","cache_control":{"type":"ephemeral","ttl":"1h","scope":"global"}}],
 "thinking":{"type":"adaptive"}, "output_config":{"effort":"high"}, "context_management":{"edits":[]},
 "metadata":{"user_id":"{\\"session_id\\":\\"s\\"}"}, "speed":"fast", "unknown_field":[1.0,1e2,"\\u00e9"],
 "tools":[{"name":"t","input_schema":{},"defer_loading":true,"eager_input_streaming":true}], "messages":[]}`;

describe("the contract of Claude Code", () => {
  it.each([
    "/v1/messages?beta=true",
    "/v1/messages/count_tokens?beta=true",
    "/model/m/invoke",
    "/model/m/invoke-with-response-stream",
    `${VERTEX}:rawPredict`,
    `${VERTEX}:streamRawPredict`,
  ])("25: %s passes its headers and its body unchanged", async (path) => {
    const { lab, seen } = await openFront(() => ({ type: "application/json", chunks: [Buffer.from("{}")] }));
    const headers = { ...HEADERS, "x-api-key": lab.token, "content-type": "application/json" };
    expect((await ask(lab.url + path, { headers, body: BODY })).status).toBe(200);
    expect(seen[0]?.url).toBe(path);
    expect(seen[0]?.headers).toMatchObject(HEADERS);
    expect(seen[0]?.body.toString("utf8")).toBe(BODY);
  });

  it("25: models can be listed", async () => {
    const { lab, seen } = await openFront(() => ({ type: "application/json", chunks: [Buffer.from("{}")] }));
    const headers = { ...HEADERS, "x-api-key": lab.token };
    expect((await ask(`${lab.url}/v1/models?limit=1000`, { method: "GET", headers })).status).toBe(200);
    expect(seen[0]).toMatchObject({ url: "/v1/models?limit=1000", headers: HEADERS });
  });

  it.each([
    [200, "text/event-stream", eventsOf(3).map(toSse)],
    [400, "application/json", [Buffer.from('{"type":"error","error":{"type":"x","message":"long"}}')]],
    [529, "application/json", [Buffer.from('{"type":"error","error":{"type":"overloaded_error"}}')]],
  ])("25: an answer with status %i passes unchanged, with its headers", async (status, type, chunks) => {
    const told = {
      "request-id": "req_011",
      "retry-after": "7",
      "x-should-retry": "true",
      "anthropic-ratelimit-requests-remaining": "12",
      "anthropic-ratelimit-unified-reset": "1795000000",
      "anthropic-organization-id": "o",
    };
    const { lab } = await openFront(() => ({ status, type, chunks, headers: told }));
    const got = await ask(`${lab.url}/v1/messages`, { headers: { "x-api-key": lab.token }, body: BODY });
    expect(got.status).toBe(status);
    expect(got.headers).toMatchObject({ ...told, "content-type": type });
    expect(got.body).toBe(Buffer.concat(chunks).toString("utf8"));
  });
});
