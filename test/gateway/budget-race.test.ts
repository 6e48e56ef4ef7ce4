import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
const AT_ONCE = 64;
/** Longer than a request needs to pass, and than a held one waits between two looks. */
const QUIET_MS = 700;

let server: Server;
let lab: Lab;
let served: string[];
let open: ServerResponse[];
let respond: (response: ServerResponse) => void;

beforeEach(async () => {
  [served, open] = [[], []];
  respond = (response) => void answer(response);
  server = await listen(
    createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
      request.on("end", () => {
        served.push((JSON.parse(body) as { model: string }).model);
        respond(response);
      });
    }),
  );
  lab = await openLab(`http://127.0.0.1:${portOf(server)}`);
});
afterEach(async () => {
  await lab.close();
  server.closeAllConnections();
  server.close();
});

/** Its size is that of the tokens that it uses. */
const FILLER = "x".repeat(360);
const send = (model = "priced"): Promise<Got> =>
  ask(`${lab.url}/v1/messages`, {
    headers: { "x-api-key": lab.token, "content-type": "application/json" },
    body: JSON.stringify({ model, filler: FILLER }),
  });
const askAt = (to: Lab) =>
  ask(`${to.url}/v1/messages`, { headers: { "x-api-key": to.token }, body: '{"model":"priced"}' });
const held = () => lab.records().filter(({ type }) => type === "held");
const quiet = () => new Promise((resolve) => setTimeout(resolve, QUIET_MS));

/** Every answer uses 100 tokens. */
function answer(response: ServerResponse, model = "priced"): void {
  const usage = { input_tokens: 90, output_tokens: 10 };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ type: "message", id: "m", model, usage }));
}

/** Ends the turn of a budget: every held request is refused. */
async function endTurn(all: readonly Promise<Got>[]): Promise<number[]> {
  lab.desk.budget = { ...(lab.desk.budget as DeskBudget), isOver: true };
  return (await Promise.all(all)).map(({ status }) => status).sort();
}

describe(`${AT_ONCE} requests at once`, () => {
  it.each([
    [{ requests: 3 }, 3],
    [{ tokens: 300 }, 3],
    [{ usd: 0.003 }, 3],
  ])("13: pass a budget of %o by none", async (ceilings, most) => {
    lab.desk.budget = { ...BUDGET, ceilings };
    const all = Array.from({ length: AT_ONCE }, () => send());
    await expect.poll(() => held().length).toBe(1);
    await quiet();
    expect(served).toHaveLength(most);
    expect(await endTurn(all)).toEqual([...Array(most).fill(200), ...Array(AT_ONCE - most).fill(403)]);
    expect(served).toHaveLength(most);
  });

  it("13: pass none where the price is that of another name of the model", async () => {
    lab.desk.rules = { models: { alias: "priced" } };
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 0.0001 } };
    respond = (response) => open.push(response);
    const all = Array.from({ length: AT_ONCE }, () => send("alias"));
    await expect.poll(() => open.length).toBe(1);
    await quiet();
    expect(served).toHaveLength(1);
    answer(open[0] as ServerResponse);
    await expect.poll(() => held().length).toBe(1);
    await endTurn(all);
    expect(served).toEqual(["priced"]);
  });
});

describe("while a budget's request is open", () => {
  it("12: nothing passes, whatever the limits say", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000_000 }, isOpen: true };
    const all = Array.from({ length: AT_ONCE }, () => send());
    await quiet();
    expect(served).toEqual([]);
    expect(held(), "the engine knows of it").toEqual([]);
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000_000 } };
    expect((await Promise.all(all)).every(({ status }) => status === 200)).toBe(true);
  });

  it("12: no other model passes beside one whose price is not known", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 100 } };
    const unpriced = send("made-up");
    await expect.poll(() => held().length).toBe(1);
    const all = [unpriced, ...Array.from({ length: 8 }, () => send())];
    await quiet();
    expect(served).toEqual([]);
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 100 }, takesUnpriced: true };
    expect((await Promise.all(all)).every(({ status }) => status === 200)).toBe(true);
  });

  it("12: a request that had passed, and waits for the provider's limit, waits on", async () => {
    lab.desk.rules = { untilReset: true };
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000_000 } };
    respond = (response) => void response.writeHead(429, { "retry-after": "1" }).end("{}");
    const waiting = send();
    await expect.poll(() => lab.records().some(({ type }) => type === "limited")).toBe(true);
    respond = (response) => void answer(response);
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000_000 }, isOpen: true };
    await new Promise((resolve) => setTimeout(resolve, 1_000 + QUIET_MS));
    expect(served).toHaveLength(1);
    lab.desk.budget = { ...BUDGET, ceilings: { tokens: 1_000_000 } };
    expect((await waiting).status).toBe(200);
  });
});

describe("the sum of a budget", () => {
  it("has the price of the model that was asked for, where the answer names one without a price", async () => {
    lab.desk.budget = { ...BUDGET, ceilings: { usd: 0.001 } };
    respond = (response) => void answer(response, "a-deployment-of-it");
    expect((await send()).status).toBe(200);
    const second = send();
    await expect.poll(() => held().length).toBe(1);
    expect(await endTurn([second])).toEqual([403]);
    expect(lab.records().find(({ type }) => type === "ended")).toMatchObject({
      model: "a-deployment-of-it",
      asked: "priced",
    });
  });

  it("has the requests of an earlier gateway that the engine has not read", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-records-"));
    try {
      const records = join(folder, "records");
      const first = await openLab(`http://127.0.0.1:${portOf(server)}`, { records });
      const budget = { ...BUDGET, ceilings: { tokens: 100 } };
      first.desk.budget = budget;
      expect((await askAt(first)).status).toBe(200);
      await first.close();
      // The gateway was killed, and the engine has counted nothing yet.
      const second = await openLab(`http://127.0.0.1:${portOf(server)}`, { records });
      second.desk.budget = budget;
      const request = askAt(second);
      await expect.poll(() => second.records().some(({ type }) => type === "held")).toBe(true);
      second.desk.budget = { ...budget, isOver: true };
      expect((await request).status).toBe(403);
      expect(served).toHaveLength(1);
      await second.close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("has requests that could not be written down, and none passes when the file is full", async () => {
    await lab.close();
    lab = await openLab(`http://127.0.0.1:${portOf(server)}`, { mostRecords: 2_000 });
    let passed = 0;
    while ((await send()).status === 200 && passed < 20) passed += 1;
    expect(passed).toBeGreaterThan(0);
    expect(passed).toBeLessThan(20);
    const before = served.length;
    const got = await send();
    expect(got.status).toBe(503);
    expect(served).toHaveLength(before);
  });
});
