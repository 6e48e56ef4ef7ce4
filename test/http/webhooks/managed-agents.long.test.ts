import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Catalog, createCatalog } from "../../../src/catalog/index.ts";
import { toSignedHeaders } from "../../../src/http/webhooks/signature.ts";
import { createWebhooks, type LogLine, type Webhooks } from "../../../src/http/index.ts";
import { openEngine, runTurn, SCRIPTED, script, type TestEngine } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { isEnd, makeSession, message, ofType, text, watch } from "../anthropic/session-bench.ts";
import { openReceiver, type Received, type Receiver } from "./webhook-receiver.ts";

const typesOf = (received: readonly Received[]): string[] => received.map(({ type }) => type);

describe("K5: webhooks of a server", () => {
  let receiver: Receiver;
  let server: TestServer;
  let client: Anthropic;
  let beta: Anthropic["beta"];
  beforeAll(async () => {
    receiver = await openReceiver();
    server = await startServer({ args: ["--webhook", receiver.url] });
    const webhookKey = (await readFile(join(server.data, "webhook.key"), "utf8")).trim();
    client = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic`, webhookKey });
    beta = client.beta;
  }, 60_000);
  afterAll(async () => {
    await server.close();
    await receiver.close();
  });

  const run = (id: string, ...steps: unknown[]) =>
    watch({ beta }, id, () => beta.sessions.events.send(id, { events: [message(text(...steps))] }));
  const told = (id: string, type: string): Promise<Received> =>
    receiver.until((one) => one.session === id && one.type === type && one.status === 200);

  it("pass the SDK's unwrap, which refuses changed, old and wrongly signed ones", async () => {
    const { id } = await makeSession({ beta });
    await run(id, { say: "hello" });
    const { body, headers } = await told(id, "session.status_idled");
    const event = beta.webhooks.unwrap(body, { headers });
    expect(event).toMatchObject({ type: "event", data: { type: "session.status_idled", id } });
    expect(event.id).toBe(headers["webhook-id"]);
    expect(Object.keys(event.data).toSorted()).toEqual(["id", "organization_id", "type", "workspace_id"]);
    expect(Date.parse(event.created_at)).not.toBeNaN();
    expect(() => beta.webhooks.unwrap(body.replace("idled", "ended"), { headers })).toThrow();
    const signed = (now: number) => toSignedHeaders(client.webhookKey ?? "", { id: event.id, body, now });
    beta.webhooks.unwrap(body, { headers: signed(Date.now() - 240_000) });
    expect(() => beta.webhooks.unwrap(body, { headers: signed(Date.now() - 310_000) })).toThrow(/too old/);
    expect(() => beta.webhooks.unwrap(body, { headers, key: `whsec_${btoa("another key")}` })).toThrow();
  });

  it("report a session from its creation to its deletion", async () => {
    const ask = { default_config: { permission_policy: { type: "always_ask" } } };
    const { id } = await makeSession({ beta }, { tools: [{ type: "agent_toolset_20260401", ...ask }] });
    const first = await run(id, { shell: "echo hi" }, { say: "done" });
    await told(id, "session.requires_action");
    const tool_use_id = ofType(first, "agent.tool_use")[0]?.id ?? "";
    const allow = { type: "user.tool_confirmation", tool_use_id, result: "allow" } as const;
    await watch({ beta }, id, () => beta.sessions.events.send(id, { events: [allow] }), isEnd);
    await beta.sessions.update(id, { title: "renamed" });
    await told(id, "session.updated");
    await beta.sessions.archive(id);
    await told(id, "session.archived");
    await beta.sessions.delete(id);
    await told(id, "session.deleted");
    expect(typesOf(receiver.taken(id))).toEqual([
      "session.created",
      "session.status_run_started",
      "session.status_idled",
      "session.requires_action",
      "session.status_run_started",
      "session.status_idled",
      "session.updated",
      "session.archived",
      "session.deleted",
    ]);
    const ids = receiver.taken(id).map((one) => one.id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { body, headers } of receiver.taken(id)) beta.webhooks.unwrap(body, { headers });
  });

  it("report retries and terminations", async () => {
    const { id } = await makeSession({ beta });
    await run(id, { fail: { kind: "overloaded", times: 1 } }, { say: "late" });
    await told(id, "session.status_idled");
    expect(typesOf(receiver.taken(id))).toEqual([
      "session.created",
      "session.status_run_started",
      "session.status_rescheduled",
      "session.status_run_started",
      "session.status_idled",
    ]);
    await run(id, { fail: { kind: "terminal" } });
    await told(id, "session.status_terminated");
    expect(typesOf(receiver.taken(id)).slice(-2)).toEqual([
      "session.status_run_started",
      "session.status_terminated",
    ]);
  });

  it("keep their id when resent", async () => {
    receiver.answer(500);
    const { id } = await makeSession({ beta });
    const refused = await receiver.until((one) => one.session === id);
    receiver.answer(200);
    const taken = await told(id, "session.created");
    expect([taken.id, taken.body]).toEqual([refused.id, refused.body]);
    beta.webhooks.unwrap(taken.body, { headers: taken.headers });
  });

  it("survive kill -9, also for a deleted session", async () => {
    const { id: kept } = await makeSession({ beta });
    const { id: gone } = await makeSession({ beta });
    await told(kept, "session.created");
    await told(gone, "session.created");
    receiver.answer(503);
    const before = receiver.received.length;
    await run(kept, { say: "unheard" });
    await beta.sessions.delete(gone);
    await receiver.until((one) => receiver.received.indexOf(one) >= before);
    await server.kill();
    const refused = receiver.received.at(-1);
    receiver.answer(200);
    await server.start();
    await told(kept, "session.status_idled");
    await told(gone, "session.deleted");
    expect(typesOf(receiver.taken(kept))).toEqual([
      "session.created",
      "session.status_run_started",
      "session.status_idled",
    ]);
    expect(receiver.taken().some((one) => one.id === refused?.id && one.body === refused.body)).toBe(true);
  });

  it("follow no redirect", async () => {
    const elsewhere = await openReceiver();
    try {
      receiver.answer(307, { location: elsewhere.url });
      const { id } = await makeSession({ beta });
      await receiver.until((one) => one.session === id && one.status === 307);
      receiver.answer(200);
      await told(id, "session.created");
      expect(elsewhere.received).toEqual([]);
    } finally {
      await elsewhere.close();
    }
  });

  it("are counted, and their address is redacted in the log", async () => {
    const metrics = await (await server.fetch("/metrics")).text();
    expect(Number(/^sluice_webhooks_delivered_total (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(0);
    expect(metrics).toMatch(/^sluice_webhook_endpoints_given_up 0$/m);
    expect(server.stderr()).toContain("a webhook was not taken");
    expect(server.stderr()).not.toContain("in-the-address");
    expect((await stat(join(server.data, "webhook.key"))).mode & 0o077).toBe(0);
  });
});

describe("K5: an endpoint", () => {
  let folder: string;
  let catalog: Catalog;
  let receiver: Receiver;
  let test: TestEngine;
  let webhooks: Webhooks | undefined;
  const lines: LogLine[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-webhooks-"));
    catalog = createCatalog({ folder });
    receiver = await openReceiver();
    test = await openEngine({ onCommit: (session, events) => webhooks?.committed(session, events) });
    lines.length = 0;
  });
  afterEach(async () => {
    await webhooks?.close();
    webhooks = undefined;
    await test.close();
    await receiver.close();
    await catalog.close();
    await rm(folder, { recursive: true });
  });

  const open = (): Webhooks =>
    (webhooks = createWebhooks({
      log: test.log,
      catalog,
      urls: [receiver.url],
      key: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
      patience: { firstMs: 5, mostMs: 20, failures: 4, timeoutMs: 5_000 },
      logger: (line) => lines.push(line),
    }));
  const create = async (id: string): Promise<void> => void (await test.engine.create(id, SCRIPTED));
  const told = (session: string, type: string): Promise<Received> =>
    receiver.until((one) => one.session === `sesn_${session}` && one.type === type && one.status === 200);

  it("that keeps failing is given up visibly and loses nothing", async () => {
    receiver.answer(500);
    const first = open();
    await create("a");
    await expect.poll(() => first.stats.givenUp).toBe(1);
    expect(receiver.received).toHaveLength(4);
    expect(first.stats).toEqual({ delivered: 0, failed: 4, givenUp: 1 });
    expect(lines.at(-1)).toMatchObject({ level: "error", problem: "HTTP 500", failures: 4 });
    await runTurn(test, "a", script({ say: "unheard" }));
    expect(receiver.received).toHaveLength(4);
    await first.close();
    receiver.answer(200);
    open();
    await told("a", "session.status_idled");
    expect(typesOf(receiver.taken())).toEqual([
      "session.created",
      "session.status_run_started",
      "session.status_idled",
    ]);
    expect(new Set(receiver.received.slice(0, 5).map(({ id }) => id)).size).toBe(1);
  });

  it("gets the events after its registration and no earlier ones", async () => {
    await create("old");
    await runTurn(test, "old", script({ say: "before" }));
    open();
    await create("new");
    await told("new", "session.created");
    await runTurn(test, "old", script({ say: "after" }));
    await told("old", "session.status_idled");
    expect(typesOf(receiver.taken("sesn_old"))).toEqual([
      "session.status_run_started",
      "session.status_idled",
    ]);
  });

  it("continues from the oldest event after a trim behind its cursor", async () => {
    const first = open();
    await create("trimmed");
    await told("trimmed", "session.created");
    await first.close();
    webhooks = undefined;
    await runTurn(test, "trimmed", script({ say: "forgotten" }));
    await test.log.trim("trimmed", (await test.log.find("trimmed"))?.head ?? 0);
    await runTurn(test, "trimmed", script({ say: "kept" }));
    open();
    await told("trimmed", "session.status_idled");
    // An event without a stored cursor is delivered again under the same id.
    const facts = new Map(receiver.taken("sesn_trimmed").map((one) => [one.id, one]));
    expect(typesOf([...facts.values()])).toEqual([
      "session.created",
      "session.status_run_started",
      "session.status_idled",
    ]);
    expect(lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("gets a later session with the same id as another session", async () => {
    open();
    await create("again");
    const first = await told("again", "session.created");
    await test.engine.remove("again");
    await told("again", "session.deleted");
    await create("again");
    const second = await receiver.until((one) => one.type === "session.created" && one.id !== first.id);
    expect(second.session).toBe("sesn_again");
    expect(typesOf(receiver.taken())).toEqual(["session.created", "session.deleted", "session.created"]);
  });

  it("catches up with many sessions after an absence, each event once", async () => {
    await open().close();
    webhooks = undefined;
    const names = Array.from({ length: 230 }, (_, index) => `s${index}`);
    for (const name of names) await create(name);
    const caughtUp = open();
    await expect.poll(() => receiver.taken().length, { timeout: 20_000 }).toBe(names.length);
    expect(new Set(receiver.taken().map(({ id }) => id)).size).toBe(names.length);
    await caughtUp.close();
    open();
    await create("last");
    await told("last", "session.created");
    expect(receiver.taken()).toHaveLength(names.length + 1);
  });
});
