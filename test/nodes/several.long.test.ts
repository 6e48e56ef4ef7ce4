import Anthropic from "@anthropic-ai/sdk";
import { HttpAgent } from "@ag-ui/client";
import { createHmac } from "node:crypto";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { makeSession, message, watch } from "../http/anthropic/session-bench.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { readFrames } from "../support/sse.ts";
import {
  create,
  eventsOf,
  isAgents,
  isAlive,
  KEY,
  POLL,
  processesIn,
  readTurn,
  send,
  TOKEN,
} from "./node-bench.ts";

const { bin, reason } = requirePostgres();

describe.skipIf(bin === undefined)(reason ?? "several nodes over PostgreSQL", { timeout: 120_000 }, () => {
  let postgres: TestPostgres;
  const servers: TestServer[] = [];
  beforeAll(async () => {
    postgres = await startPostgres(bin ?? "");
  }, 60_000);
  afterAll(() => postgres?.stop());
  afterEach(async () => {
    for (const server of servers) {
      // A frozen process ends by no other signal.
      if (isAlive(server.pid)) process.kill(server.pid, "SIGCONT");
      await server.stop();
    }
    for (const server of servers.splice(0)) await server.close();
  }, 120_000);

  const node = async (url: string, name: string, ...args: string[]): Promise<TestServer> => {
    const env = { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY, SLUICE_TOKEN: TOKEN };
    const server = await startServer({ env, args: ["--node", name, ...args] });
    servers.push(server);
    return server;
  };
  const pair = async (...args: string[]): Promise<[TestServer, TestServer]> => {
    const url = await postgres.createDatabase();
    return [await node(url, "a", ...args), await node(url, "b", ...args)];
  };

  it("serves every command of every dialect at a node that does not have the session", async () => {
    const [a, b] = await pair();
    await create(a, "s");
    const watching = readTurn(b, "s");
    await send(b, "s", script({ say: "hello" }, { shell: "echo one > file.txt" }));
    const live = await watching;
    expectLawful(live);
    expect(assistantTexts(live)).toEqual(["hello"]);
    expect(await eventsOf(a, "s")).toEqual(live);
    expect(await eventsOf(b, "s")).toEqual(live);

    const file = await b.fetch("/v1/fs/file?session=s&path=file.txt");
    expect(await file.text()).toBe("one\n");
    const large = "x".repeat(3_000_000);
    const put = await b.fetch("/v1/fs/file?session=s&path=large.txt", { method: "PUT", body: large });
    expect(put.ok).toBe(true);
    expect((await (await a.fetch("/v1/fs/file?session=s&path=large.txt")).text()).length).toBe(3_000_000);
    const { commandId, after } = await b.client.runCommand("s", { command: "cat file.txt" });
    const until = ({ data }: { data: string }): boolean =>
      data.includes('"command.ended"') && data.includes(commandId);
    await readFrames(b, "s", { after, until });
    const forked = await b.fetch("/v1/sessions/fork", {
      method: "POST",
      body: JSON.stringify({ agent: "scripted", fork: { session: "s" } }),
    });
    expect(forked.ok, await forked.clone().text()).toBe(true);
    expect(await (await b.fetch("/v1/fs/file?session=fork&path=file.txt")).text()).toBe("one\n");

    await send(b, "s", script({ question: { prompt: "go on?", options: ["yes"] } }, { say: "answered" }));
    await expect.poll(async () => (await b.client.sessions.get("s")).pendingActions.length, POLL).toBe(1);
    const [request] = (await b.client.sessions.get("s")).pendingActions;
    await b.client.replyQuestion("s", request?.id ?? "", [["yes"]]);
    await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("idle");
    await send(b, "s", script({ shell: "sleep 60" }));
    await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("running");
    await b.client.interrupt("s");
    await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("idle");
    await send(b, "s", script({ say: "again" }));
    await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("idle");

    const { beta } = new Anthropic({ baseURL: `${a.url}/anthropic`, apiKey: TOKEN });
    const other = new Anthropic({ baseURL: `${b.url}/anthropic`, apiKey: TOKEN });
    const session = await makeSession({ beta });
    const seen = await watch({ beta: other.beta }, session.id, () =>
      other.beta.sessions.events.send(session.id, { events: [message(script({ say: "managed" }))] }),
    );
    expect(JSON.stringify(seen)).toContain("managed");
    await other.beta.sessions.archive(session.id);

    for (const [at, words] of [
      [a, "one"],
      [b, "two"],
    ] as const) {
      const agent = new HttpAgent({
        url: `${at.url}/ag-ui/scripted`,
        threadId: "thread",
        headers: { authorization: `Bearer ${TOKEN}` },
      });
      agent.addMessage({ id: `u-${words}`, role: "user", content: script({ say: `over AG-UI ${words}` }) });
      await agent.runAgent();
      expect(JSON.stringify(agent.messages)).toContain(`over AG-UI ${words}`);
    }

    for (const at of [a, b]) {
      const body = JSON.stringify({ prompt: script({ say: "a line" }), conversation: "conversation" });
      const lines = await at.fetch("/ndjson/stream", { method: "POST", body });
      expect(await lines.text()).toContain("a line");
    }
    await b.client.sessions.delete("s");
    expect((await a.fetch("/v1/sessions/s")).status).toBe(404);
  });

  it("forwards a port of a sandbox, with WebSockets", async () => {
    const [a, b] = await pair();
    await create(a, "s");
    const program = `
      const http = require("node:http");
      const server = http.createServer((request, response) => {
        let size = 0;
        request.on("data", (chunk) => (size += chunk.length));
        request.on("end", () => response.end(request.method + " " + size));
      });
      server.on("upgrade", (request, socket) => {
        socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n");
        socket.on("data", (data) => socket.write("echo " + data));
      });
      server.listen(8123, "127.0.0.1", () => console.log("ready"));`;
    await a.client.fs.write("s", "server.cjs", Buffer.from(program));
    await a.client.runCommand("s", { command: "nohup node server.cjs >out.txt 2>&1 & sleep 1; cat out.txt" });
    const port = "/v1/sessions/s/ports/8123/";
    await expect.poll(async () => (await b.fetch(port)).status, POLL).toBe(200);
    const answer = await b.fetch(port, { method: "POST", body: "x".repeat(500_000) });
    expect(await answer.text()).toBe("POST 500000");
    expect(await speakUpgraded(b, port)).toContain("echo hi");
  });

  it("serves the sessions of a node after kill -9, and readers resume without a gap or a repeat", async () => {
    const [a, b] = await pair();
    await create(a, "running");
    await create(a, "resting");
    await send(a, "resting", script({ say: "first" }));
    await readTurn(a, "resting");
    await send(a, "running", script({ say: "begin" }, { shell: "sleep 600" }));
    const before = await readFrames(b, "running", { after: 0, until: isAgents });
    await a.kill();
    const rest = await readTurn(b, "running", Number(before.at(-1)?.id));
    const events = [...before.map(({ data }) => JSON.parse(data) as SluiceEvent), ...rest];
    expectLawful(events);
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "failed" } });
    const stored = await eventsOf(b, "running");
    expect(stored.slice(0, events.length)).toEqual(events);
    expect(stored.at(-1)).toMatchObject({ type: "process.ended", data: { reason: "lost" } });
    for (const id of ["running", "resting"]) {
      const after = (await eventsOf(b, id)).length;
      await send(b, id, script({ say: "again" }));
      expect(assistantTexts(await readTurn(b, id, after))).toEqual(["again"]);
    }
    // The agents that the dead life has left behind end when the node is back.
    await a.start();
    const after = (await eventsOf(a, "running")).length;
    await send(a, "running", script({ say: "from a" }));
    expect(assistantTexts(await readTurn(a, "running", after))).toEqual(["from a"]);
  });

  it("hands its sessions over at SIGTERM, also those with a running turn", async () => {
    const [a, b] = await pair();
    await create(a, "idle");
    await send(a, "idle", script({ say: "one" }));
    await readTurn(a, "idle");
    await create(a, "busy");
    await send(a, "busy", script({ say: "begin" }, { shell: "sleep 600" }));
    await readFrames(b, "busy", { after: 0, until: isAgents });
    const stopping = a.stop();
    // A command that comes meanwhile waits for the new owner.
    await expect
      .poll(async () => (await a.fetch("/healthz").catch(() => undefined))?.status, POLL)
      .not.toBe(200);
    await send(b, "idle", script({ say: "two" }));
    expect(await stopping).toBe(0);
    await expect.poll(async () => assistantTexts(await eventsOf(b, "idle")), POLL).toEqual(["one", "two"]);
    await send(b, "busy", script({ say: "again" }));
    await expect.poll(async () => assistantTexts(await eventsOf(b, "busy")), POLL).toContain("again");
    await expect.poll(async () => (await b.client.sessions.get("busy")).status, POLL).toBe("idle");
    expectLawful(await eventsOf(b, "busy"));
  });

  it("lets a node that was frozen past its lease neither write nor speak to its agent", async () => {
    const [a, b] = await pair("--lease", "2");
    await create(a, "s");
    const steps = Array.from({ length: 60 }, (_, n) => [{ say: `a ${n}` }, { shell: "sleep 0.2" }]).flat();
    await send(a, "s", script(...steps));
    await readFrames(a, "s", { after: 0, until: ({ data }) => data.includes("a 1") });
    process.kill(a.pid, "SIGSTOP");
    // It waits in the socket of the frozen node, and is carried out by the other one.
    await send(b, "s", script({ say: "from b" }), "key");
    const late = a.fetch("/v1/sessions/s/messages", {
      method: "POST",
      body: JSON.stringify({ message: script({ say: "by way of a" }) }),
    });
    await expect.poll(async () => assistantTexts(await eventsOf(b, "s")).at(-1), POLL).toBe("from b");
    await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("idle");
    const events = await eventsOf(b, "s");
    process.kill(a.pid, "SIGCONT");
    // The woken node may still forward it, and does not carry it out itself.
    const isAccepted = await late.then(({ ok }) => ok).catch(() => false);
    await expect.poll(() => isAlive(a.pid), POLL).toBe(false);
    expect(a.stderr()).toContain("The lease is lost");
    await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("idle");
    const all = await eventsOf(b, "s");
    expect(all.slice(0, events.length)).toEqual(events);
    expect(assistantTexts(all.slice(events.length))).toEqual(isAccepted ? ["by way of a"] : []);
    expectLawful(all);
    await expect.poll(() => processesIn(a.data), POLL).toEqual([]);
  });

  it("gives forwarded requests the rights of their token, and strangers nothing", async () => {
    const [a, b] = await pair();
    await create(a, "s");
    await create(a, "other");
    const post = (token: string, id: string): Promise<Response> =>
      fetch(`${b.url}/v1/sessions/${id}/messages`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify({ message: script({ say: "hello" }) }),
      });
    // Tokens of one node are valid on the other.
    const reader = await a.client.tokens.create({ scope: "read" });
    expect((await post(reader.token, "s")).status).toBe(403);
    const narrow = await a.client.tokens.create({ scope: "control", session: "s" });
    expect((await post(narrow.token, "other")).status).toBe(404);
    const tenant = await a.client.tokens.create({ scope: "admin", workspace: "team" });
    expect((await post(tenant.token, "s")).status).toBe(404);
    expect((await post("nonsense", "s")).status).toBe(401);
    expect((await post(narrow.token, "s")).ok).toBe(true);
    const turn = await readTurn(b, "s");
    expect(turn.find(({ type }) => type === "input.accepted")?.data).toMatchObject({ by: narrow.id });

    const claims = Buffer.from(
      JSON.stringify({
        to: "0".repeat(16),
        from: "b",
        method: "GET",
        path: "/v1/sessions/s",
        at: Date.now(),
        access: { tenant: "default", scope: "admin", isOperator: true },
      }),
    ).toString("base64url");
    for (const key of ["", TOKEN, KEY]) {
      const signature = createHmac("sha256", key).update(claims).digest("base64url");
      const forged = await fetch(`${a.url}/v1/sessions/s`, {
        headers: { "sluice-forward": `${claims}.${signature}` },
      });
      expect(forged.status).toBe(403);
    }
    for (const header of ["", ".", "x", "e30.e30"])
      expect((await fetch(`${a.url}/v1/sessions/s`, { headers: { "sluice-forward": header } })).status).toBe(
        403,
      );
  });
});

/** Asks for a WebSocket by hand, and returns what comes after a word. */
async function speakUpgraded(server: TestServer, path: string): Promise<string> {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  let heard = "";
  socket.on("data", (data) => (heard += data.toString()));
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  );
  for (const deadline = Date.now() + 30_000; !heard.includes("101") && Date.now() < deadline;)
    await sleep(50);
  socket.write("hi");
  for (const deadline = Date.now() + 30_000; !heard.includes("echo") && Date.now() < deadline;)
    await sleep(50);
  socket.destroy();
  return heard;
}
