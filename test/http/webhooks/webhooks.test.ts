import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SluiceEvent, WebhookDelivery, WebhookInfo } from "../../../src/contract/index.ts";
import { runTurn, say, SCRIPTED, script } from "../../support/engine.ts";
import { codeOf, problemOf } from "../app-bench.ts";
import { openReceiver, type Received, type Receiver } from "./webhook-receiver.ts";
import { openWebhooks, type WebhookBench } from "./webhook-bench.ts";

interface Payload {
  readonly type: string;
  readonly timestamp: string;
  readonly data: {
    session: string;
    agent: string;
    sequence: number;
    event: SluiceEvent;
    frames: { type: string }[];
  };
}

const payloadOf = ({ body }: Received): Payload => JSON.parse(body) as Payload;
const toldOf = (received: readonly Received[]): string[] =>
  received.map((one) => `${one.session} ${one.type}`);

describe("webhooks", () => {
  let receiver: Receiver;
  let bench: WebhookBench;
  beforeEach(async () => {
    receiver = await openReceiver();
    bench = await openWebhooks();
  });
  afterEach(async () => {
    await bench.close();
    await receiver.close();
  });

  const make = (id: string, spec: object = {}): Promise<unknown> =>
    bench.test.engine.create(id, { ...SCRIPTED, ...spec });
  const told = (session: string, type: string): Promise<Received> =>
    receiver.until((one) => one.session === session && one.type === type && one.status === 200);
  const get = async (id: string): Promise<WebhookInfo> =>
    (await (await bench.call("GET", `/v1/webhooks/${id}`)).json()) as WebhookInfo;

  it("are signed so that the library of Standard Webhooks accepts them, and nothing else", async () => {
    const { secret } = await bench.create({ url: receiver.url });
    await make("one");
    await runTurn(bench.test, "one", script({ say: "hello" }));
    const one = await told("one", "turn.ended");
    const verified = new Webhook(secret).verify(one.body, one.headers) as Payload;
    expect(verified).toMatchObject({
      type: "turn.ended",
      data: {
        session: "one",
        agent: "scripted",
        event: { type: "turn.ended", data: { status: "completed" } },
      },
    });
    expect(verified.timestamp).toBe(verified.data.event.time);
    expect(verified.data.sequence).toBe(verified.data.event.sequence);
    expect(() => new Webhook(secret).verify(one.body.replace("completed", "failed"), one.headers)).toThrow();
    expect(() => new Webhook(`whsec_${btoa("another key")}`).verify(one.body, one.headers)).toThrow();
  });

  it("show their secret once, and no file or line has it", async () => {
    const { id, secret } = await bench.create({ url: receiver.url, name: "mine" });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const shown = await (await bench.call("GET", "/v1/webhooks")).text();
    expect(JSON.parse(shown)).toMatchObject({
      webhooks: [{ id, name: "mine", as: "universal", enabled: true, failures: 0, url: receiver.url }],
    });
    receiver.answer(500);
    await make("one");
    await runTurn(bench.test, "one", script({ say: "hello" }));
    await expect.poll(async () => (await get(id)).enabled).toBe(false);
    const files = await readdir(bench.test.folder);
    const texts = await Promise.all(
      files.map((file) => readFile(join(bench.test.folder, file), "latin1").catch(() => "")),
    );
    const bytes = Buffer.from(secret.slice(6), "base64").toString("latin1");
    for (const text of [shown, JSON.stringify(bench.lines), ...texts]) {
      expect(text.includes(secret.slice(6))).toBe(false);
      expect(text.includes(bytes)).toBe(false);
    }
    expect(JSON.stringify(bench.lines)).not.toContain("in-the-address");
  });

  it("report asks that wait for a person, and none that the session's settings answer", async () => {
    await bench.create({ url: receiver.url, types: ["ask.opened"] });
    await make("attended");
    await say(bench.test.engine, "attended", script({ ask: { shell: "true" } }));
    const asked = payloadOf(await told("attended", "ask.opened"));
    expect(asked.data.event).toMatchObject({ type: "permission.requested", data: { status: "requested" } });
    for (const spec of [{ permissionMode: "bypass" }, { unattended: true }]) {
      const id = `with-${Object.keys(spec)[0]}`;
      await make(id, spec);
      await runTurn(bench.test, id, script({ ask: { shell: "true" } }));
    }
    await make("asking");
    await say(bench.test.engine, "asking", script({ question: { prompt: "which?", options: ["a", "b"] } }));
    const question = payloadOf(await told("asking", "ask.opened"));
    expect(question.data.event).toMatchObject({ type: "question.requested", data: { prompt: "which?" } });
    expect(toldOf(receiver.taken())).toEqual(["attended ask.opened", "asking ask.opened"]);
  });

  it("report only what their filters admit", async () => {
    await bench.create({ url: receiver.url, types: ["turn.ended"], metadata: { team: "red" } });
    await bench.create({ url: receiver.url, types: ["session.ended"], session: "chosen" });
    await bench.create({ url: receiver.url, types: ["turn.ended"], agent: "claude" });
    await make("red", { metadata: { team: "red" } });
    await make("blue", { metadata: { team: "blue" } });
    await make("chosen");
    await make("turned");
    await bench.test.engine.update("turned", { metadata: { team: "red" } });
    for (const id of ["blue", "chosen", "red", "turned"])
      await runTurn(bench.test, id, script({ say: "hello" }));
    for (const id of ["blue", "chosen"]) await bench.test.engine.terminate(id);
    await told("red", "turn.ended");
    await told("turned", "turn.ended");
    await told("chosen", "session.ended");
    expect(toldOf(receiver.taken()).toSorted()).toEqual([
      "chosen session.ended",
      "red turn.ended",
      "turned turn.ended",
    ]);
  });

  it("speak the dialect that was asked for", async () => {
    const dialects = ["anthropic", "ag-ui", "ndjson", "content", "lifecycle"] as const;
    for (const as of dialects)
      await bench.create({ url: `${receiver.url}&as=${as}`, as, types: ["turn.ended"] });
    await make("one");
    await runTurn(bench.test, "one", script({ say: "hello" }));
    await expect.poll(() => receiver.taken().length).toBe(dialects.length);
    const managed = receiver.taken().find(({ type }) => type === "session.status_idled");
    expect(JSON.parse(managed?.body ?? "")).toMatchObject({ type: "event", data: { id: "sesn_one" } });
    const types = receiver.taken("one").map((one) => payloadOf(one).data.frames.map(({ type }) => type));
    expect(types).toContainEqual(["RUN_FINISHED"]);
    expect(types).toContainEqual(["result"]);
    expect(new Set(receiver.taken().map(({ id }) => id)).size).toBe(dialects.length);
  });

  it("report a budget as soon as the log has such an event", async () => {
    await bench.create({ url: receiver.url, types: ["budget.reached"] });
    const data = { scope: "session", limit: { usd: 2 }, spent: { usd: 2.1 }, action: "pause" };
    const { log } = bench.test;
    const { epoch } = await log.create({ id: "spent", spec: SCRIPTED, owner: "test", time: Date.now() });
    const event = { type: "budget.reached", source: "daemon", data } as never;
    await log.append("spent", { epoch, time: Date.now(), events: [event] });
    bench.webhooks.committed("spent", [{ type: "budget.reached" as never }]);
    expect(payloadOf(await told("spent", "budget.reached")).data.event.data).toEqual(data);
    await log.remove("spent");
    const refused = await bench.call("POST", "/v1/webhooks", {
      json: { url: receiver.url, as: "anthropic", types: ["budget.reached"] },
    });
    expect(await codeOf(refused)).toBe("invalid_request");
  });

  it("that keep failing are disabled with a reason, and continue when they are enabled", async () => {
    const { id } = await bench.create({ url: receiver.url, types: ["turn.ended"] });
    receiver.answer(500);
    await make("one");
    await runTurn(bench.test, "one", script({ say: "unheard" }));
    await expect.poll(async () => (await get(id)).enabled).toBe(false);
    expect(await get(id)).toMatchObject({
      failures: 4,
      problem: "HTTP 500",
      disabledReason: "Disabled after 4 failed attempts in a row; the last problem was: HTTP 500",
    });
    const { deliveries } = (await (await bench.call("GET", `/v1/webhooks/${id}/deliveries`)).json()) as {
      deliveries: WebhookDelivery[];
    };
    expect(deliveries).toHaveLength(4);
    expect(deliveries[0]).toMatchObject({ session: "one", delivered: false, problem: "HTTP 500" });
    await runTurn(bench.test, "one", script({ say: "unheard too" }));
    await bench.reopen();
    receiver.answer(200);
    expect((await get(id)).enabled).toBe(false);
    expect(receiver.received).toHaveLength(4);
    await bench.call("PATCH", `/v1/webhooks/${id}`, { json: { enabled: true } });
    await expect.poll(() => receiver.taken().length).toBe(2);
    expect(receiver.taken()[0]?.id).toBe(receiver.received[0]?.id);
    expect(receiver.taken()[0]?.body).toBe(receiver.received[0]?.body);
    const { disabledReason, problem, failures } = await get(id);
    expect([disabledReason, problem, failures]).toEqual([undefined, undefined, 0]);
  });

  it("are disabled at once by a receiver that is gone", async () => {
    const { id } = await bench.create({ url: receiver.url });
    receiver.answer(410);
    await make("one");
    await runTurn(bench.test, "one", script({ say: "hello" }));
    await expect.poll(async () => (await get(id)).disabledReason).toContain("HTTP 410");
    expect(receiver.received).toHaveLength(1);
  });

  it("reach one receiver while another never answers", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    await bench.create({ url: `http://127.0.0.1:${port}/` });
    await bench.create({ url: receiver.url, types: ["turn.ended"] });
    await make("one");
    for (let turn = 1; turn <= 3; turn++) {
      await runTurn(bench.test, "one", script({ say: "hello" }));
      await expect.poll(() => receiver.taken("one").length).toBe(turn);
    }
    silent.closeAllConnections();
    silent.close();
  });

  it("report what happened while no server ran, once, and nothing from before their creation", async () => {
    await make("old");
    await runTurn(bench.test, "old", script({ say: "before" }));
    await bench.create({ url: receiver.url, types: ["turn.ended"] });
    await bench.reopen(async () => {
      await make("new");
      await runTurn(bench.test, "new", script({ say: "meanwhile" }));
      await runTurn(bench.test, "old", script({ say: "after" }));
    });
    await told("new", "turn.ended");
    await told("old", "turn.ended");
    await bench.reopen();
    await runTurn(bench.test, "new", script({ say: "later" }));
    await expect.poll(() => new Set(receiver.taken("new").map(({ id }) => id)).size).toBe(2);
    // A delivery whose answer the end of the server cut off is repeated under the same id.
    expect(new Set(receiver.taken("old").map(({ id }) => id)).size).toBe(1);
    expect(new Set(receiver.taken().map(({ id }) => id)).size).toBe(3);
  });

  it("continue from the oldest event where retention has trimmed their cursor away", async () => {
    await bench.create({ url: receiver.url, types: ["turn.ended"] });
    await make("trimmed");
    await runTurn(bench.test, "trimmed", script({ say: "heard" }));
    await told("trimmed", "turn.ended");
    await bench.reopen(async () => {
      await runTurn(bench.test, "trimmed", script({ say: "forgotten" }));
      await bench.test.log.trim("trimmed", (await bench.test.log.find("trimmed"))?.head ?? 0);
      await runTurn(bench.test, "trimmed", script({ say: "kept" }));
    });
    await expect.poll(() => new Set(receiver.taken("trimmed").map(({ id }) => id)).size).toBe(2);
    expect(bench.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("tell of 64 sessions that end at once, each time once", async () => {
    await bench.create({ url: receiver.url, types: ["session.ended"] });
    const names = Array.from({ length: 64 }, (_, index) => `s${index}`);
    for (const name of names) await make(name);
    await Promise.all(names.map((name) => bench.test.engine.terminate(name)));
    await expect.poll(() => receiver.taken().length, { timeout: 20_000 }).toBe(64);
    expect(toldOf(receiver.taken()).toSorted()).toEqual(
      names.map((name) => `${name} session.ended`).toSorted(),
    );
  });

  it("send a test message on request, and are no more when they are deleted", async () => {
    const { id, secret } = await bench.create({ url: receiver.url });
    const tested = await bench.call("POST", `/v1/webhooks/${id}/test`);
    expect(await tested.json()).toMatchObject({ type: "webhook.test", delivered: true });
    const [message] = receiver.taken();
    expect(new Webhook(secret).verify(message?.body ?? "", message?.headers ?? {})).toMatchObject({
      data: { webhook: id },
    });
    await make("one");
    await runTurn(bench.test, "one", script({ say: "hello" }));
    await told("one", "turn.ended");
    expect((await bench.call("DELETE", `/v1/webhooks/${id}`)).status).toBe(204);
    expect(await codeOf(await bench.call("GET", `/v1/webhooks/${id}`))).toBe("not_found");
    await runTurn(bench.test, "one", script({ say: "unheard" }));
    expect(await bench.catalog.list("sluice", { kind: "webhook_cursor", limit: 10 })).toEqual([]);
    expect(receiver.taken("one")).toHaveLength(1);
  });

  it.each([
    [{ url: "ftp://example.com/" }, /http/],
    [{ url: "https://user:secret@example.com/" }, /user name/],
    [{ url: "nowhere" }, /address/],
    [{ url: "https://example.com/", types: ["turn.began"] }, /types/],
    [{ url: "https://example.com/", types: [] }, /types/],
    [{ url: "https://example.com/", as: "klingon" }, /as/],
    [{ url: "https://example.com/", metadata: { a: 1 } }, /metadata/],
    [{ url: "https://example.com/", secret: "mine" }, /secret/],
  ])("refuse %j", async (json, detail) => {
    const problem = await problemOf(await bench.call("POST", "/v1/webhooks", { json }));
    expect([problem.status, problem.detail]).toEqual([400, expect.stringMatching(detail)]);
  });
});
