import { createServer, type Server, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DeskBudget } from "../../src/gateway/desk.ts";
import { ask, type Got, type Lab, listen, openLab, portOf } from "./lab.ts";

const NONE = { usd: 0, tokens: 0, requests: 0 };
const BUDGET: Omit<DeskBudget, "ceilings"> = {
  spent: NONE,
  workspace: [],
  at: 0,
  takesUnpriced: false,
  prices: { priced: { input: 10, output: 10 } },
};

/** An upstream of Anthropic's API. Every answer uses 100 tokens, and is sent when the test says so. */
interface Upstream {
  readonly url: string;
  readonly server: Server;
  readonly open: ServerResponse[];
  served: number;
  isManual: boolean;
}

async function openUpstream(): Promise<Upstream> {
  const upstream = { url: "", open: [] as ServerResponse[], served: 0, isManual: false };
  const server = await listen(
    createServer((request, response) => {
      request.resume().on("end", () => {
        upstream.served += 1;
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(
          event({ type: "message_start", message: { model: "priced", usage: { input_tokens: 90 } } }),
        );
        if (upstream.isManual) upstream.open.push(response);
        else finish(response);
      });
    }),
  );
  return Object.assign(upstream, { server, url: `http://127.0.0.1:${portOf(server)}` });
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function finish(response: ServerResponse): void {
  response.write(event({ type: "message_delta", usage: { output_tokens: 10 } }));
  response.end(event({ type: "message_stop" }));
}

describe("the ledger of the gateway", () => {
  let upstream: Upstream;
  let lab: Lab;
  beforeEach(async () => {
    upstream = await openUpstream();
    lab = await openLab(upstream.url);
  });
  afterEach(async () => {
    await lab.close();
    upstream.server.closeAllConnections();
    upstream.server.close();
  });

  const send = (model = "priced", body: object = {}): Promise<Got> =>
    ask(`${lab.url}/v1/messages`, {
      headers: { "x-api-key": lab.token, "content-type": "application/json" },
      body: JSON.stringify({ model, ...body }),
    });
  const held = () => lab.records().filter(({ type }) => type === "held");

  it("holds the request after the one that used up the budget, with no engine in between, and goes on when it is raised", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 100 } };
    expect((await send()).status).toBe(200);
    lab.desk.isDown = true;
    const second = send();
    await expect.poll(() => held().length).toBe(1);
    expect(upstream.served).toBe(1);
    // The engine reads it when it is back.
    expect(held()).toMatchObject([{ scope: "session", measure: "tokens", limit: 100, spent: 100 }]);
    lab.desk.isDown = false;
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 250 } };
    expect((await second).status).toBe(200);
    expect(upstream.served).toBe(2);
    expect(held()).toHaveLength(1);
  });

  it("counts what the engine has counted once", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { requests: 4 } };
    await send();
    await send();
    // The engine has read both: its count replaces the gateway's own.
    lab.desk.budget = {
      ...BUDGET,
      spent: { ...NONE, requests: 2 },
      at: lab.text().length,
      ceilings: { requests: 4 },
    };
    await sleep(1_100);
    await send();
    expect((await send()).status).toBe(200);
    expect(upstream.served).toBe(4);
  });

  it("refuses in the wire's own form when the turn is being ended", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 0.0005 } };
    await send();
    const second = send();
    await expect.poll(() => held().length).toBe(1);
    lab.desk.budget = { ...lab.desk.budget, isOver: true };
    const got = await second;
    expect(got.status).toBe(403);
    expect(JSON.parse(got.body)).toMatchObject({ type: "error", error: { type: "permission_error" } });
    expect(upstream.served).toBe(1);
  });

  it("lets parallel requests near the limit pass one at a time", async () => {
    upstream.isManual = true;
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 200 } };
    const body = { filler: "x".repeat(600) };
    const all = Array.from({ length: 8 }, () => send("priced", body));
    await expect.poll(() => upstream.open.length).toBe(1);
    await sleep(600);
    expect(upstream.served).toBe(1);
    finish(upstream.open[0] as ServerResponse);
    await expect.poll(() => upstream.open.length).toBe(2);
    finish(upstream.open[1] as ServerResponse);
    // 200 tokens are used: the other six wait.
    await expect.poll(() => held().length).toBe(1);
    await sleep(300);
    expect(upstream.served).toBe(2);
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 200 }, isOver: true };
    const answers = await Promise.all(all);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, ...Array(6).fill(403)]);
  });

  it("lets no model of unknown price pass a budget in dollars", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 100 } };
    const request = send("made-up-model");
    await expect.poll(() => held().length).toBe(1);
    expect(held()).toMatchObject([{ measure: "usd", unpriced: true }]);
    expect(upstream.served).toBe(0);
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 100 }, takesUnpriced: true };
    expect((await request).status).toBe(200);
  });

  it("holds a stream whose output so far uses up the budget, and cuts it when the turn is ended", async () => {
    upstream.isManual = true;
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000 } };
    const got = send();
    await expect.poll(() => upstream.open.length).toBe(1);
    const answer = upstream.open[0] as ServerResponse;
    const text = "word ".repeat(200);
    const words = event({ type: "content_block_delta", delta: { type: "text_delta", text } });
    for (let at = 0; at < 5; at++) answer.write(words);
    await expect.poll(() => held().length).toBe(1);
    lab.desk.budget = { ...lab.desk.budget, isOver: true };
    expect(await got).toMatchObject({ status: 200, isCut: true });
    const ended = lab.records().find(({ type }) => type === "ended");
    // The provider tells the output at the end only, so it is estimated.
    expect(ended).toMatchObject({ estimated: true, error: "budget", usage: { input_tokens: 90 } });
  });

  it("counts an answer that the agent breaks off before its usage is told", async () => {
    upstream.isManual = true;
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000 } };
    const abort = new AbortController();
    const request = fetch(`${lab.url}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": lab.token },
      body: JSON.stringify({ model: "priced" }),
      signal: abort.signal,
    });
    await expect.poll(() => upstream.open.length).toBe(1);
    const text = "x".repeat(4_000);
    (upstream.open[0] as ServerResponse).write(event({ type: "content_block_delta", delta: { text } }));
    const answer = await request;
    await answer.body?.getReader().read();
    await sleep(100);
    abort.abort();
    await expect.poll(() => lab.records().some(({ type }) => type === "ended")).toBe(true);
    expect(lab.records().find(({ type }) => type === "ended")).toMatchObject({
      estimated: true,
      usage: { input_tokens: 90, output_tokens: 1_000 },
    });
    const next = send().catch(() => undefined);
    await expect.poll(() => held().length).toBe(1);
    lab.desk.budget = { ...lab.desk.budget, isOver: true };
    expect(await next).toMatchObject({ status: 403 });
  });
});
