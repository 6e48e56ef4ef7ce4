import Anthropic from "@anthropic-ai/sdk";
import { HttpAgent } from "@ag-ui/client";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { makeSession, message, watch } from "../http/anthropic/session-bench.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { readFrames } from "../support/sse.ts";

const { bin, reason } = requirePostgres();
/** All servers of a database have one key. */
const KEY = "0123456789abcdef".repeat(4);

describe.skipIf(bin === undefined)(reason ?? "sluice serve --database", { timeout: 180_000 }, () => {
  let postgres: TestPostgres;
  const servers: TestServer[] = [];
  const folders: string[] = [];
  beforeAll(async () => {
    postgres = await startPostgres(bin ?? "");
  }, 60_000);
  afterAll(() => postgres?.stop());
  afterEach(async () => {
    for (const server of servers) await server.stop();
    // One at a time: each removes its sessions and ends its agents.
    for (const server of servers.splice(0)) await server.close();
    for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
  }, 120_000);

  const serve = async (url: string, ...args: string[]): Promise<TestServer> => {
    const server = await startServer({ env: { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY }, args });
    servers.push(server);
    return server;
  };
  const refused = async (args: {
    data?: string;
    env?: Record<string, string>;
    args?: string[];
  }): Promise<string> => {
    const env = { SLUICE_SEAL_KEY: KEY, ...args.env };
    const data = args.data ?? (await mkdtemp(join(tmpdir(), "sluice-refused-")));
    folders.push(data);
    const error: unknown = await startServer({ ...args, env, data }).catch((failure: unknown) => failure);
    return String((error as Error).message);
  };
  it("serves every dialect, and keeps all of it over kill -9", async () => {
    const server = await serve(await postgres.createDatabase());
    await create(server, "plain");
    await send(server, "plain", script({ say: "hello" }, { shell: "echo one" }), "k1");
    expectLawful(await readTurn(server, "plain"));

    const { beta } = new Anthropic({ baseURL: `${server.url}/anthropic`, apiKey: server.token });
    const session = await makeSession({ beta });
    const seen = await watch({ beta }, session.id, () =>
      beta.sessions.events.send(session.id, { events: [message(script({ say: "managed" }))] }),
    );
    expect(JSON.stringify(seen)).toContain("managed");
    const file = await beta.files.upload({ file: new File(["x".repeat(1_500_000)], "large.txt") });

    const agent = new HttpAgent({
      url: `${server.url}/ag-ui/scripted`,
      threadId: "thread",
      headers: { authorization: `Bearer ${server.token}` },
    });
    agent.addMessage({ id: "u1", role: "user", content: script({ say: "over AG-UI" }) });
    await agent.runAgent();
    expect(JSON.stringify(agent.messages)).toContain("over AG-UI");

    const prompt = script({ say: "a line" });
    const lines = await server.fetch("/ndjson/stream", { method: "POST", body: JSON.stringify({ prompt }) });
    expect(await lines.text()).toContain("a line");

    const before = await (await server.fetch("/v1/sessions/plain/events?extensions=true")).text();
    await server.kill();
    await server.start();
    expect(await (await server.fetch("/v1/sessions/plain/events?extensions=true")).text()).toBe(before);
    expect((await beta.sessions.retrieve(session.id)).status).toBe("idle");
    expect((await beta.files.retrieveMetadata(file.id)).size_bytes).toBe(1_500_000);
    const again = await send(server, "plain", script({ say: "hello" }, { shell: "echo one" }), "k1");
    expect(again.ok).toBe(true);
    const after = JSON.parse(before) as { events: SluiceEvent[] };
    const now = await (await server.fetch("/v1/sessions/plain/events?extensions=true")).json();
    expect((now as typeof after).events).toHaveLength(after.events.length);
  });

  it("goes on with a running turn after kill -9, without a gap or a repeat", async () => {
    const server = await serve(await postgres.createDatabase());
    await create(server, "s");
    await send(server, "s", script({ say: "begin" }, { shell: "sleep 3; echo slept" }, { say: "end" }));
    await readFrames(server, "s", { after: 0, until: isAgents });
    await server.kill();
    await server.start();
    const events = await readTurn(server, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual(["begin", "end"]);
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
  });

  it("ends no turn while the database is killed and comes back", async () => {
    const server = await serve(await postgres.createDatabase());
    await create(server, "s");
    const steps = Array.from({ length: 8 }, (_, n) => [{ say: `step ${n}` }, { shell: "sleep 1" }]).flat();
    await send(server, "s", script(...steps));
    await readFrames(server, "s", { after: 0, until: isAgents });
    await postgres.kill();
    const answer = await server.fetch("/v1/sessions/s");
    expect([200, 503]).toContain(answer.status);
    await postgres.start();
    let events: SluiceEvent[] = [];
    for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(500)) {
      const page = await server
        .fetch("/v1/sessions/s/events?extensions=true&limit=1000")
        .catch(() => undefined);
      events = page?.ok ? ((await page.json()) as { events: SluiceEvent[] }).events : [];
      if (events.some(({ type }) => type === "turn.ended")) break;
    }
    expectLawful(events);
    expect(events.at(-1)).toMatchObject({
      type: "turn.ended",
      data: { status: "completed" },
    });
    expect(assistantTexts(events)).toEqual(Array.from({ length: 8 }, (_, n) => `step ${n}`));
  });

  it("lets a server of another folder take over, where lost sessions can be used again", async () => {
    const url = await postgres.createDatabase();
    const first = await serve(url);
    await create(first, "s");
    await send(first, "s", script({ say: "begin" }, { shell: "sleep 600" }));
    await readFrames(first, "s", { after: 0, until: isAgents });
    await first.kill();
    const second = await serve(url);
    const lost = await readTurn(second, "s");
    expectLawful(lost);
    expect(lost.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "failed" } });
    await send(second, "s", script({ say: "again" }));
    const rest = await readTurn(second, "s", lost.at(-1)?.sequence ?? 0);
    expect(assistantTexts(rest)).toEqual(["again"]);
  });

  it("refuses a second server of its name, another database for its folder, a folder with a log, and SQLite there", async () => {
    const [url, other] = [await postgres.createDatabase(), await postgres.createDatabase()];
    const server = await serve(url, "--node", "one");
    expect(await refused({ args: ["--node", "one"], env: { SLUICE_DATABASE: url } })).toContain(
      "Another server of the name one works on this database",
    );
    expect(await server.stop()).toBe(0);
    expect(await refused({ data: server.data, env: { SLUICE_DATABASE: other } })).toContain(
      "belongs to another database",
    );
    expect(await refused({ data: server.data })).toContain("is in a database");
    const folder = await mkdtemp(join(tmpdir(), "sluice-refused-"));
    await writeFile(join(folder, "log.db"), "");
    expect(await refused({ data: folder, env: { SLUICE_DATABASE: url } })).toContain("has a log of its own");
    const wrong = "postgres://someone:geheim@127.0.0.1:1/x";
    const away = await refused({ env: { SLUICE_DATABASE: wrong } });
    expect(away).toContain("cannot be reached");
    expect(away).not.toContain("geheim");
    const key = { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: "ab".repeat(32) };
    expect(await refused({ env: key })).toContain("encrypted with another key");
  });

  it("lists the nodes, and refuses what cannot work", async () => {
    const url = await postgres.createDatabase();
    const a = await serve(url, "--node", "a");
    const b = await serve(url, "--node", "b");
    const { nodes } = (await (await a.fetch("/v1/nodes")).json()) as { nodes: object[] };
    expect(nodes).toMatchObject([
      { name: "a", state: "live", self: true, url: a.url },
      { name: "b", state: "live", self: false },
    ]);
    const cli = spawnSync("./bin/sluice", ["nodes", "--data", b.data], { encoding: "utf8" });
    expect(cli.stdout).toMatch(/^ {2}a {2}live .*\n\* b {2}live /);
    const env = { SLUICE_DATABASE: url };
    const attempt = (...args: string[]): Promise<string> => refused({ args, env });
    expect(await attempt("--node", "a")).toContain("Another server of the name a");
    expect(await refused({ args: ["--node", "c"], env, data: a.data })).toContain("uses the data folder");
    expect(await attempt("--node", "c", "--advertise", "nonsense")).toContain("looks like http://");
    expect(await attempt("--node", "c", "--advertise", "http://127.0.0.1:1")).toContain("Nothing answers at");
    expect(await attempt("--node", "c", "--advertise", a.url)).toContain("leads to another server");
    expect(await refused({ args: ["--advertise", a.url] })).toContain("need a --database");
    const sql = postgres.admin(new URL(url).pathname.slice(1));
    await sql.unsafe(
      "UPDATE sluice.nodes SET machine = 'elsewhere', process = 'x@1@other@0@elsewhere' WHERE name = 'b'",
    );
    expect(await attempt("--node", "c")).toContain("with --advertise");
  });
});

async function create(server: TestServer, id: string): Promise<void> {
  const body = JSON.stringify({ agent: "scripted" });
  const answer = await server.fetch(`/v1/sessions/${id}`, { method: "POST", body });
  expect(answer.ok).toBe(true);
}

function send(server: TestServer, id: string, text: string, key?: string): Promise<Response> {
  return server.fetch(`/v1/sessions/${id}/messages`, {
    method: "POST",
    body: JSON.stringify({ message: text }),
    headers: key === undefined ? {} : { "idempotency-key": key },
  });
}

/** The events up to the end of the turn, as an SSE client gets them. */
async function readTurn(server: TestServer, id: string, after = 0): Promise<SluiceEvent[]> {
  const frames = await readFrames(server, id, { after, until: ({ data }) => data.includes('"turn.ended"') });
  return frames.map(({ data }) => JSON.parse(data) as SluiceEvent);
}

/** Whether the agent has begun: the words of its script stand in the input already. */
function isAgents({ data }: { data: string }): boolean {
  return data.includes('"source":"agent"') && data.includes('"item.delta"');
}
