import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { script } from "../support/engine.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { openReceiver, type Receiver } from "../http/webhooks/webhook-receiver.ts";
import { create, eventsOf, KEY, POLL, readTurn, send, TOKEN } from "./node-bench.ts";

const { bin, reason } = requirePostgres();
const SECRET = "a-value-that-came-with-its-session";

describe.skipIf(bin === undefined)(reason ?? "what two nodes share", { timeout: 120_000 }, () => {
  let postgres: TestPostgres;
  let url: string;
  let a: TestServer;
  let b: TestServer;
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await openReceiver();
    postgres = await startPostgres(bin ?? "");
    url = await postgres.createDatabase();
    const env = { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY, SLUICE_TOKEN: TOKEN };
    const node = (name: string): Promise<TestServer> =>
      startServer({ env, args: ["--node", name, "--lease", "3", "--rate-limit", "6"] });
    a = await node("a");
    b = await node("b");
  }, 120_000);
  afterAll(async () => {
    for (const server of [a, b]) await server?.close();
    await postgres?.stop();
    await receiver?.close();
  }, 120_000);

  it("is a limit of requests by the minute", async () => {
    const began = performance.now();
    const statuses: number[] = [];
    for (let count = 0; count < 20; count += 1) {
      const answer = await (count % 2 === 0 ? a : b).fetch("/anthropic/v1/files");
      statuses.push(answer.status);
      if (answer.status === 429) expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    const refilled = Math.ceil((performance.now() - began) / 10_000);
    const taken = statuses.filter((status) => status === 200).length;
    expect(taken).toBeGreaterThanOrEqual(6);
    expect(taken).toBeLessThanOrEqual(6 + refilled);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
  });

  it("is the value of a secret, which is at the next node after a kill, and goes with its session", async () => {
    const body = JSON.stringify({ agent: "scripted", secrets: { OWN_KEY: `value:${SECRET}` } });
    expect((await a.fetch("/v1/sessions/secret", { method: "POST", body })).ok).toBe(true);
    const told = await (await b.fetch("/v1/sessions/secret/spec")).text();
    expect(told).toContain("(hidden)");
    const sql = postgres.admin(new URL(url).pathname.slice(1));
    const [row] = await sql.unsafe("SELECT spec::text FROM sluice.sessions WHERE id = 'secret'");
    expect(String(row?.["spec"])).not.toContain(SECRET);
    // The reference is worth nothing to another session.
    const reference = /kept:[0-9a-f]{32}/.exec(String(row?.["spec"]))?.[0];
    expect(reference).toBeDefined();
    const thief = JSON.stringify({ agent: "scripted", secrets: { OWN_KEY: reference } });
    const refused = await b.fetch("/v1/sessions/thief", { method: "POST", body: thief });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("not given to another");

    const [count] = await sql.unsafe("SELECT count(*)::int AS n, min(encrypted) AS text FROM sluice.secrets");
    expect(count).toMatchObject({ n: 1 });
    expect(String(count?.["text"])).not.toContain(SECRET);

    const look = script({ shell: 'printf %s "$OWN_KEY" | tee found.txt | cut -c 3-' });
    await send(a, "secret", look);
    await readTurn(a, "secret");
    expect(await fileAt(a)).toBe(SECRET);
    await a.kill();
    const after = (await eventsOf(b, "secret")).length;
    await send(b, "secret", script({ shell: 'printf %s "$OWN_KEY" > found.txt; printf %s "$OWN_KEY"' }));
    await readTurn(b, "secret", after);
    expect(await fileAt(b)).toBe(SECRET);
    expect(JSON.stringify(await eventsOf(b, "secret"))).not.toContain(SECRET);
    await a.start();
    await a.client.sessions.delete("secret");
    await expect
      .poll(async () => (await sql.unsafe("SELECT count(*)::int AS n FROM sluice.secrets"))[0]?.["n"], POLL)
      .toBe(0);
  });

  it("is a webhook: one node reports each turn, and another one those of a node that dies", async () => {
    await a.client.webhooks.create({ url: receiver.url, types: ["turn.ended"] });
    // The other node learns of it by itself.
    const ids = ["hook-0", "hook-1", "hook-2", "hook-3"];
    for (const [index, id] of ids.entries()) await create(index % 2 === 0 ? a : b, id);
    for (let turn = 0; turn < 2; turn += 1)
      await Promise.all(ids.map((id, index) => send(index < 2 ? a : b, id, script({ say: `turn ${turn}` }))));
    for (const id of ids) {
      await expect.poll(() => endsOf(b, id), POLL).toBe(2);
      await expect.poll(() => receiver.taken(id).length, POLL).toBe(2);
    }
    const quiet = receiver.taken();
    expect(new Set(quiet.map(({ id }) => id)).size).toBe(quiet.length);

    // Nobody hears the end of this turn before its node is killed.
    receiver.answer(503);
    await send(a, "hook-0", script({ say: "unheard" }));
    await receiver.until(({ session, status }) => session === "hook-0" && status === 503);
    await a.kill();
    receiver.answer(200);
    await expect.poll(() => new Set(receiver.taken("hook-0").map(({ id }) => id)).size, POLL).toBe(3);
    const refused = receiver.received.find(({ status }) => status === 503);
    expect(receiver.taken("hook-0").some(({ id, body }) => id === refused?.id && body === refused.body)).toBe(
      true,
    );
    await a.start();
  });
});

async function fileAt(server: TestServer): Promise<string> {
  return (await server.fetch("/v1/fs/file?session=secret&path=found.txt")).text();
}

async function endsOf(server: TestServer, id: string): Promise<number> {
  return (await eventsOf(server, id)).filter(({ type }) => type === "turn.ended").length;
}
