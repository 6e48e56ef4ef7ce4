import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CassetteLaunch } from "../../src/contract/process.ts";
import { createCassette } from "../../src/gateway/cassette/cassette.ts";
import { type Exchange, parseCassette, toBody } from "../../src/gateway/cassette/format.ts";
import { openTape, type Tape } from "../../src/gateway/cassette/tape.ts";
import { Desk } from "../../src/gateway/desk.ts";
import { createProvider } from "../../src/gateway/model-provider.ts";
import type { GatewayRecord } from "../../src/gateway/record.ts";
import { ask, type Lab, listen, openLab, portOf } from "./lab.ts";

const SECRET = "hidden-value-77aa88bb99cc";

let folder: string;
let upstream: Server;
let script: (
  body: string,
  at: number,
) => { status?: number; headers?: Record<string, string>; chunks: string[]; cut?: boolean };
let asked: string[];
const labs: Lab[] = [];
const tapes: Tape[] = [];
const told: GatewayRecord[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "cassette-"));
  asked = [];
  told.length = 0;
  upstream = await listen(
    createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString("utf8")));
      request.on("end", async () => {
        asked.push(body);
        const { status = 200, headers = {}, chunks, cut } = script(body, asked.length - 1);
        response.writeHead(status, { "content-type": "text/event-stream", ...headers });
        for (const chunk of chunks) {
          response.write(chunk);
          await new Promise((done) => setTimeout(done, 15));
        }
        if (cut === true) response.destroy();
        else response.end();
      });
    }),
  );
});
afterEach(async () => {
  for (const lab of labs.splice(0)) await lab.close();
  for (const tape of tapes.splice(0)) tape.close();
  upstream.closeAllConnections();
  upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
const answer = (...texts: string[]): string[] => [
  event({ type: "message_start", message: { id: "msg_1", model: "m", usage: { input_tokens: 5 } } }),
  ...texts.map((text) =>
    event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
  ),
  event({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } }),
  event({ type: "message_stop" }),
];
const file = (): string => join(folder, "t.jsonl");
const lines = (): Exchange[] => parseCassette(readFileSync(file()));

/** A gateway on a cassette, with a provider unless it replays. */
async function open(
  launch: Partial<CassetteLaunch> & Pick<CassetteLaunch, "mode">,
  given?: Tape,
): Promise<Lab> {
  const whole = { file: file(), ...launch };
  const tape = given ?? openTape(whole);
  tapes.push(tape);
  const url = `http://127.0.0.1:${portOf(upstream)}`;
  const lab = await openLab(url, {
    answerer: createCassette({
      launch: whole,
      tape,
      provider: whole.mode === "replay" ? undefined : await providerOf(),
      readScrub: async () => ({
        hasKey: whole.mode !== "replay",
        scrub: (bytes) => Buffer.from(bytes.toString("latin1").replaceAll(SECRET, "[redacted:S]"), "latin1"),
      }),
      records: { write: (record) => told.push(record), isFull: () => false, earlier: () => [] },
    }),
  });
  labs.push(lab);
  return lab;
}

async function providerOf() {
  // Its own desk: the lab's belongs to the lab's provider.
  const lab = await openLab("http://127.0.0.1:9");
  labs.push(lab);
  const desk = { read: async () => ({ keys: { up: "sk-key" } }) } as unknown as Desk;
  return createProvider({
    desk,
    dial: async (host, port) => {
      const socket = connect({ host, port, noDelay: true });
      await once(socket, "connect");
      return socket;
    },
  });
}

const send = (lab: Lab, body: unknown, headers: Record<string, string> = {}) =>
  ask(`${lab.url}/v1/messages?beta=true`, {
    headers: { "x-api-key": lab.token, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const prompt = (text: string, more: object = {}) => ({
  model: "m",
  messages: [{ role: "user", content: text }],
  ...more,
});

const as = (id: string) => ({ "x-claude-code-agent-id": id });

describe("a cassette", () => {
  it("replays an answer in its chunks, with the session's ids masked and no prompt in the file", async () => {
    script = () => ({ chunks: answer("Hel", "lo") });
    const live = await send(
      await open({ mode: "record" }),
      prompt("the prompt", { metadata: { user_id: "one" } }),
    );
    expect(readFileSync(file(), "utf8")).not.toMatch(/the prompt|beta=true|sk-key|x-api-key/);
    const lab = await open({ mode: "replay" });
    const again = await send(lab, prompt("the prompt", { metadata: { user_id: "another" } }));
    expect(again.chunks.map(String)).toEqual(live.chunks.map(String));
    expect(again.status).toBe(200);
    expect(asked).toHaveLength(1);
    expect(lab.records().at(-1)).toMatchObject({
      type: "ended",
      served: "cassette",
      usage: { output_tokens: 2 },
    });
  });

  it("replays errors, rate limits and broken answers in their order", async () => {
    script = (_body, at) =>
      at === 0
        ? {
            status: 429,
            headers: {
              "retry-after": "3",
              "set-cookie": "a=b",
              "x-secret": "x",
              "content-type": "application/json",
            },
            chunks: ['{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'],
          }
        : { chunks: answer("x").slice(0, at === 1 ? 2 : 4), cut: at === 1 };
    const record = await open({ mode: "record" });
    const live = [
      await send(record, prompt("a")),
      await send(record, prompt("a")),
      await send(record, prompt("a")),
    ];
    expect(lines().map(({ ordinal, cut }) => [ordinal, cut])).toEqual([
      [0, undefined],
      [1, "provider"],
      [2, undefined],
    ]);
    expect(Object.keys(lines()[0]?.response.headers ?? {}).toSorted()).toEqual([
      "content-type",
      "retry-after",
    ]);
    const replay = await open({ mode: "replay" });
    for (const one of live) {
      const other = await send(replay, prompt("a"));
      expect([other.status, other.isCut, other.body]).toEqual([one.status, one.isCut, one.body]);
      expect(other.headers["retry-after"]).toBe(one.headers["retry-after"]);
    }
    const extra = await send(replay, prompt("a"));
    expect([extra.status, extra.body]).toEqual([
      400,
      expect.stringContaining("recorded 3 times, and is asked once more"),
    ]);
  });

  it("refuses a request that it does not have, and names the nearest recording and the place", async () => {
    script = () => ({ chunks: answer("x") });
    const record = await open({ mode: "record" });
    await send(record, prompt("one", { tools: [{ name: "t" }] }));
    await send(record, {
      ...prompt("two"),
      messages: [
        { role: "user", content: "a" },
        { role: "user", content: "b" },
      ],
    });
    const replay = await open({ mode: "replay" });
    const miss = await send(replay, {
      ...prompt("two"),
      messages: [
        { role: "user", content: "a" },
        { role: "user", content: "c" },
      ],
    });
    expect(miss.status).toBe(400);
    expect(miss.headers["x-should-retry"]).toBe("false");
    expect(miss.body).toContain(
      "nearest recording is number 2; the first difference is at /messages/1/content",
    );
    const other = await ask(`${replay.url}/v1/responses`, {
      headers: { "x-api-key": replay.token },
      body: "{}",
    });
    expect(other.body).toContain("no recording of POST /v1/responses");
    expect(replay.records().filter(({ type }) => type === "ended")).toMatchObject([
      { error: "cassette_miss", served: "cassette", detail: expect.stringContaining("number 2") },
      { error: "cassette_miss" },
    ]);
    expect(asked).toHaveLength(2);
  });

  it("in the mode auto records what is missing, and calls the provider for nothing else", async () => {
    script = (body) => ({ chunks: answer(body.includes("one") ? "1" : "2") });
    await send(await open({ mode: "record" }), prompt("one"));
    const auto = await open({ mode: "auto" });
    await send(auto, prompt("one"));
    expect(asked).toHaveLength(1);
    await send(auto, prompt("two"));
    expect(asked).toHaveLength(2);
    expect(lines()).toHaveLength(2);
  });

  it("replays sub-agents in any order, whatever their ids are now", async () => {
    script = (body, at) => ({ chunks: answer(`${at}`) });
    const record = await open({ mode: "record" });
    // The same first words, and different answers.
    for (const id of ["a", "b", "a", "b"]) await send(record, prompt("same"), as(id));
    await send(record, prompt("only b"), as("b"));
    const body = (at: number): string => toBody(lines()[at] as Exchange).toString("utf8");
    const replay = await open({ mode: "replay" });
    expect((await send(replay, prompt("only b"), as("y"))).body).toBe(body(4));
    expect((await send(replay, prompt("same"), as("y"))).body).toBe(body(1));
    expect((await send(replay, prompt("same"), as("x"))).body).toBe(body(0));
    expect((await send(replay, prompt("same"), as("x"))).body).toBe(body(2));
    expect((await send(replay, prompt("same"), as("y"))).body).toBe(body(3));
  });

  it("goes on without a recording when the disk is full, and says so", async () => {
    script = () => ({ chunks: answer("x") });
    const lab = await open({ mode: "record" }, { exchanges: [], append: () => false, close() {} });
    expect((await send(lab, prompt("one"))).status).toBe(200);
    expect(told).toMatchObject([{ type: "cassette", why: expect.stringContaining("disk full") }]);
  });
});

describe("a secret", () => {
  it("is in no chunk of a cassette, also when a stream splits it", async () => {
    const half = SECRET.slice(0, 9);
    script = () => ({
      headers: { "retry-after": SECRET },
      chunks: answer("see ", half, SECRET.slice(9), ` mail jo@corp.io sk-ant-api03-${"x1".repeat(20)}`),
    });
    const live = await send(await open({ mode: "record" }), prompt(SECRET));
    expect(live.body).toContain(half);
    const text = readFileSync(file(), "utf8");
    expect(text).not.toMatch(/hidden-value|jo@corp|sk-ant|77aa88/);
    const again = await send(await open({ mode: "replay" }), prompt(SECRET));
    const said = [...again.body.matchAll(/"text":"([^"]*)"/g)].map(([, part]) => part).join("");
    expect(said).toBe("see [redacted:S] mail user@example.com [key]");
    expect(again.chunks.length).toBe(live.chunks.length);
  });
});
