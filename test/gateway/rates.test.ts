import { createServer, type Server } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import type { GatewayRecord } from "../../src/gateway/record.ts";
import { WorkspaceRates } from "../../src/sessions/turn/workspace-rate.ts";
import { ask, type Lab, listen, openLab, portOf } from "./lab.ts";

let lab: Lab | undefined;
let upstream: Server | undefined;
afterEach(async () => {
  await lab?.close();
  upstream?.closeAllConnections();
  upstream?.close();
  [lab, upstream] = [undefined, undefined];
});

/** The gateway's time, which passes only while a request waits. */
function createClock(): { at: number; now(): number; sleep(ms: number): Promise<void> } {
  const clock = {
    at: Date.now(),
    now: () => clock.at,
    sleep: async (ms: number) => {
      clock.at += ms;
    },
  };
  return clock;
}

const ANSWER = JSON.stringify({
  type: "message",
  id: "m",
  model: "m",
  stop_reason: "end_turn",
  usage: { input_tokens: 60, output_tokens: 40 },
});

async function open(rules: NonNullable<Lab["desk"]["rules"]> = {}) {
  const clock = createClock();
  const served: string[] = [];
  upstream = await listen(
    createServer((incoming, outgoing) => {
      incoming.resume();
      served.push(incoming.url ?? "");
      outgoing.writeHead(200, { "content-type": "application/json" }).end(ANSWER);
    }),
  );
  lab = await openLab(`http://127.0.0.1:${portOf(upstream)}`, { clock });
  lab.desk.rules = rules;
  const opened = lab;
  const call = (path = "/v1/messages") =>
    ask(`${opened.url}${path}`, { headers: { "x-api-key": opened.token }, body: '{"model":"m"}' });
  const limited = () =>
    opened
      .records()
      .filter((record): record is Extract<GatewayRecord, { type: "limited" }> => record.type === "limited");
  return { lab: opened, clock, served, call, limited };
}

describe("a limit by the minute", () => {
  it.each([
    ["/v1/messages", { type: "error", error: { type: "rate_limit_error" } }],
    ["/v1/responses", { error: { code: "rate_limit_exceeded" } }],
    ["/v1/chat/completions", { error: { code: "rate_limit_exceeded" } }],
    ["/model/m-v1%3A0/invoke", { __type: "ThrottlingException", message: expect.any(String) }],
    [
      "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
      { error: { code: 429, status: "RESOURCE_EXHAUSTED" } },
    ],
    ["/v1beta/models/m:generateContent", { error: { code: 429, status: "RESOURCE_EXHAUSTED" } }],
  ])("15: refuses %s with 429, retry-after and the wire's own error", async (path, form) => {
    const { lab, clock, served, call } = await open({ perMinute: { requests: 2 } });
    expect([(await call(path)).status, (await call(path)).status]).toEqual([200, 200]);
    const refused = await call(path);
    expect(refused.status).toBe(429);
    expect(refused.headers["retry-after"]).toBe("60");
    expect(JSON.parse(refused.body)).toMatchObject(form);
    expect(served).toHaveLength(2);
    expect(lab.records().at(-1)).toMatchObject({ type: "ended", status: 429, error: "rate_limited" });
    clock.at += 60_000;
    expect((await call(path)).status).toBe(200);
  });

  it("makes a request wait if its turn comes soon, and says until when", async () => {
    const { clock, served, call, limited } = await open({ perMinute: { requests: 1 } });
    const began = clock.at;
    await call();
    clock.at += 45_000;
    expect((await call()).status).toBe(200);
    expect(clock.at).toBe(began + 60_000);
    expect(limited()).toMatchObject([{ scope: "session", until: began + 60_000 }]);
    expect(served).toHaveLength(2);
  });

  it("of tokens counts the answers of the last minute", async () => {
    const { clock, call } = await open({ perMinute: { tokens: 150 } });
    expect((await call()).status).toBe(200);
    clock.at += 10_000;
    expect((await call()).status).toBe(200);
    expect((await call()).headers["retry-after"]).toBe("50");
    clock.at += 50_000;
    expect((await call()).status).toBe(200);
  });

  it("is waited for however long, with untilReset, and lets requests pass in their order", async () => {
    const { clock, served, call } = await open({ perMinute: { requests: 1 }, untilReset: true });
    const began = clock.at;
    const all = await Promise.all([call(), call(), call()]);
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(clock.at).toBe(began + 120_000);
    expect(served).toHaveLength(3);
  });

  it("does not count lists of models", async () => {
    const { lab, call } = await open({ perMinute: { requests: 1 } });
    await call();
    const list = await ask(`${lab.url}/v1/models`, { method: "GET", headers: { "x-api-key": lab.token } });
    expect(list.status).toBe(200);
  });

  it("of a workspace counts its other sessions", async () => {
    const { lab, clock, call } = await open();
    const others = [{ time: clock.at - 5_000, requests: 2, tokens: 0 }];
    lab.desk.workspace = { perMinute: { requests: 3 }, others };
    expect((await call()).status).toBe(200);
    const refused = await call();
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "55"]);
    expect(refused.body).toContain("workspace");
    lab.desk.workspace = { perMinute: { requests: 3 }, others: [] };
    expect((await call()).status).toBe(200);
  });
});

describe("the requests of a workspace", () => {
  it("are told to its other sessions, for a minute", async () => {
    const rates = new WorkspaceRates({ isLimited: () => true });
    const now = Date.now();
    const started = { type: "started", id: "r", wire: "chat", provider: "p" } as const;
    const ended = { type: "ended", id: "r", wire: "chat", provider: "p", ms: 1, in: 1, out: 1 } as const;
    const usage = { input_tokens: 30, output_tokens: 12, cache_read_tokens: 1_000 };
    rates.note("team", "one", { ...started, time: now });
    rates.note("team", "one", { ...ended, time: now, served: "provider", usage });
    rates.note("team", "one", { ...started, time: now - 61_000 });
    rates.note("other", "two", { ...started, time: now });
    rates.note(undefined, "three", { ...started, time: now });
    expect(await rates.others("team", "two")).toEqual([{ time: now, requests: 1, tokens: 42 }]);
    expect(await rates.others("team", "one")).toEqual([]);
    expect(await rates.others("none", "one")).toEqual([]);
  });
});
