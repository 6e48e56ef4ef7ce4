import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type SluiceClient, SluiceClientError } from "../../src/client/index.ts";
import { operations } from "../../src/http/universal/openapi.ts";

/** The client's call of each operation, or the reason for its absence. */
const METHODS: Record<keyof typeof operations, ((client: SluiceClient) => unknown) | string> = {
  health: (client) => client.health(),
  healthz: "the same as health, for probes",
  metrics: "for Prometheus",
  openapi: "a document, not a call",
  home: "a page, not a call",
  getUsage: (client) => client.usage({ by: "day" }),
  listNodes: (client) => client.nodes(),
  listAgents: (client) => client.agents(),
  listSessions: (client) => client.sessions.list(),
  createSession: (client) => client.sessions.create("s", { agent: "scripted" }),
  getSession: (client) => client.sessions.get("s"),
  getSpec: (client) => client.sessions.spec("s"),
  updateSession: (client) => client.sessions.update("s", { title: "t" }),
  deleteSession: (client) => client.sessions.delete("s"),
  sendMessage: (client) => client.sendMessage("s", "hi"),
  streamMessage: (client) => client.messageStream("s", "hi").next(),
  interruptSession: (client) => client.interrupt("s"),
  terminateSession: (client) => client.terminate("s"),
  listEvents: (client) => client.events.page("s"),
  streamEvents: (client) => client.subscribe("s").next(),
  replyPermission: (client) => client.replyPermission("s", "p", { reply: "once" }),
  replyQuestion: (client) => client.replyQuestion("s", "q", [["a"]]),
  rejectQuestion: (client) => client.rejectQuestion("s", "q"),
  replyTool: (client) => client.replyTool("s", "r", { output: "x" }),
  pauseSession: (client) => client.pause("s"),
  resumeSession: (client) => client.resume("s"),
  runCommand: (client) => client.runCommand("s", { command: "true" }),
  listShelf: (client) => client.checkpoints.shelved("shelf", { limit: 3 }),
  getHost: (client) => client.host("s", 3000),
  listCheckpoints: (client) => client.checkpoints.list("s", { limit: 3 }),
  createCheckpoint: (client) => client.checkpoints.create("s", { comment: "c" }),
  restoreCheckpoint: (client) => client.checkpoints.restore("s", "latest"),
  moveSession: (client) => client.move("s", "local"),
  getCheckpointTree: (client) => client.checkpoints.tree("s", "c", "a", { recursive: true }),
  readCheckpointFile: (client) => client.checkpoints.file("s", "c", "a"),
  diffCheckpoints: (client) => client.checkpoints.changes("s", { from: "c", to: "d" }, { path: "a" }),
  listInputs: (client) => client.inputs.list("s"),
  replaceInput: (client) => client.inputs.replace("s", "i", "text", { revision: "1" }),
  withdrawInput: (client) => client.inputs.withdraw("s", "i"),
  orderInputs: (client) => client.inputs.order("s", ["i"], { revision: "1" }),
  getOutline: (client) => client.sessions.outline("s", { limit: 3 }),
  streamSessions: (client) => client.sessions.watch({ status: ["waiting"] }).next(),
  listTokens: (client) => client.tokens.list().next(),
  createToken: (client) => client.tokens.create({ scope: "read" }),
  revokeToken: (client) => client.tokens.revoke("tok_1"),
  listWebhooks: (client) => client.webhooks.list().next(),
  createWebhook: (client) => client.webhooks.create({ url: "https://example.com/" }),
  getWebhook: (client) => client.webhooks.get("whk_1"),
  updateWebhook: (client) => client.webhooks.update("whk_1", { enabled: true }),
  deleteWebhook: (client) => client.webhooks.delete("whk_1"),
  listWebhookDeliveries: (client) => client.webhooks.deliveries("whk_1"),
  testWebhook: (client) => client.webhooks.test("whk_1"),
  listEntries: (client) => client.fs.entries("s", "a"),
  readFile: (client) => client.fs.read("s", "a"),
  writeFile: (client) => client.fs.write("s", "a", "x"),
  deleteEntry: (client) => client.fs.remove("s", "a"),
  makeFolder: (client) => client.fs.mkdir("s", "a"),
  moveFile: (client) => client.fs.move("s", { from: "a", to: "b" }),
  statFile: (client) => client.fs.stat("s", "a"),
  uploadBatch: (client) => client.fs.uploadBatch("s", "a", new Uint8Array(512)),
};

interface Seen {
  readonly method: string;
  readonly url: URL;
  readonly body: string;
}

const seen: Seen[] = [];
let server: Server;
let client: SluiceClient;

/** Records each request and refuses it, so that one response fits every call. */
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    seen.push({ method: request.method ?? "", url: new URL(request.url ?? "", "http://x"), body });
    response.writeHead(400, { "content-type": "application/problem+json" });
    const type = "urn:sluice:error:invalid_request";
    response.end(JSON.stringify({ type, title: "no", status: 400, detail: "no" }));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  client = createClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

describe("the client", () => {
  it("has a method for every operation, or a reason for its absence", () => {
    expect(Object.keys(METHODS).sort()).toEqual(Object.keys(operations).sort());
  });

  const calls = Object.values(operations).filter(({ id }) => typeof METHODS[key(id)] === "function");

  it.each(calls.map((operation) => [operation.id, operation] as const))(
    "calls %s as it is",
    async (id, operation) => {
      const call = METHODS[key(id)] as (client: SluiceClient) => Promise<unknown>;
      seen.length = 0;
      await expect(call(client)).rejects.toBeInstanceOf(SluiceClientError);
      expect(seen).toHaveLength(1);
      const [{ method, url, body }] = seen as [Seen];
      expect(method).toBe(operation.method);
      expect(url.pathname).toMatch(new RegExp(`^${operation.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`));
      const query = Object.fromEntries(url.searchParams);
      expect(operation.query?.safeParse(query).success ?? Object.keys(query).length === 0).toBe(true);
      if (operation.body?.kind === "json" && !(operation.body.optional && body === ""))
        expect(operation.body.schema.safeParse(JSON.parse(body)).error).toBeUndefined();
    },
  );

  it("reports responses of other servers and truncated ones", async () => {
    const page = createServer((request, response) => {
      response.writeHead(200, { "content-type": "text/html", "content-length": 100 });
      response.write("<html>");
      if (request.url?.startsWith("/v1/agents")) return response.destroy();
      return response.end(" ".repeat(94));
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => page.once("listening", resolve));
    const other = createClient({ url: `http://127.0.0.1:${(page.address() as AddressInfo).port}` });
    try {
      const answer = { code: "stream_error", retryable: false, detail: expect.stringContaining("<html>") };
      await expect(other.sessions.list()).rejects.toMatchObject(answer);
      await expect(other.agents()).rejects.toMatchObject({ code: "unreachable", retryable: true });
    } finally {
      page.closeAllConnections();
      await new Promise((resolve) => page.close(resolve));
    }
  });
});

function key(id: string): keyof typeof operations {
  return id as keyof typeof operations;
}
