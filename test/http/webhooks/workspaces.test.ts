import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { say, script, waitFor } from "../../support/engine.ts";
import { codeOf, problemOf } from "../app-bench.ts";
import { openReceiver, type Received, type Receiver } from "./webhook-receiver.ts";
import { openWebhooks, type WebhookBench } from "./webhook-bench.ts";

const toldOf = (received: readonly Received[]): string[] =>
  received.map((one) => `${one.session} ${one.type}`);

describe("webhooks of workspaces", () => {
  let receivers: Receiver[];
  let bench: WebhookBench;
  beforeEach(async () => {
    receivers = [await openReceiver(), await openReceiver()];
    bench = await openWebhooks({ allowedHosts: receivers.map(({ url }) => new URL(url).host) });
  });
  afterEach(async () => {
    await bench.close();
    for (const receiver of receivers) await receiver.close();
  });

  it("get no events of others, and nobody else sees or changes them", async () => {
    const [a, b] = receivers as [Receiver, Receiver];
    const { id } = await bench.create({ url: a.url }, "key-of-a");
    await bench.create({ url: b.url }, "key-of-b");
    for (const token of ["key-of-b", "key-of-a"]) {
      const of = token.at(-1);
      const made = await bench.call("POST", `/v1/sessions/of-${of}`, { token, json: { agent: "scripted" } });
      expect(made.status).toBe(200);
      const { after } = await say(bench.test.engine, `of-${of}`, script({ say: "hello" }));
      await waitFor(bench.test.log, `of-${of}`, "turn.ended", { after });
    }
    await a.until((one) => one.session === "of-a");
    await b.until((one) => one.session === "of-b");
    expect([toldOf(a.taken()), toldOf(b.taken())]).toEqual([["of-a turn.ended"], ["of-b turn.ended"]]);
    const listed = await (await bench.call("GET", "/v1/webhooks", { token: "key-of-b" })).text();
    expect(listed).not.toContain(id);
    const wrong = [
      ["GET", `/v1/webhooks/${id}`],
      ["PATCH", `/v1/webhooks/${id}`],
      ["DELETE", `/v1/webhooks/${id}`],
      ["GET", `/v1/webhooks/${id}/deliveries`],
      ["POST", `/v1/webhooks/${id}/test`],
    ] as const;
    for (const [method, path] of wrong) {
      const response = await bench.call(method, path, {
        token: "key-of-b",
        ...(method === "PATCH" && { json: { enabled: false } }),
      });
      expect([method, path, await codeOf(response)]).toEqual([method, path, "not_found"]);
    }
    const foreign = await bench.call("POST", "/v1/webhooks", {
      token: "key-of-b",
      json: { url: b.url, workspace: "a" },
    });
    expect(await codeOf(foreign)).toBe("permission_denied");
  });

  it.each([
    "http://127.0.0.1:9/",
    "http://localhost/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/",
  ])("do not lead to %s", async (url) => {
    const refused = await bench.call("POST", "/v1/webhooks", { token: "key-of-a", json: { url } });
    const problem = await problemOf(refused);
    expect([problem.status, problem.detail]).toEqual([400, expect.stringContaining("cannot reach")]);
    const { id } = await bench.create({ url: "https://example.com/" }, "key-of-a");
    const patched = await bench.call("PATCH", `/v1/webhooks/${id}`, { token: "key-of-a", json: { url } });
    expect(await codeOf(patched)).toBe("invalid_request");
  });

  it("need the scope admin and more than one session", async () => {
    for (const wanted of [{ scope: "control" }, { scope: "admin", session: "one" }]) {
      const made = await bench.call("POST", "/v1/tokens", { json: wanted });
      const { token } = (await made.json()) as { token: string };
      expect(await codeOf(await bench.call("GET", "/v1/webhooks", { token }))).toBe("permission_denied");
    }
  });
});

it("the webhooks of Managed Agents name the workspace of a session that another dialect made", async () => {
  const receiver = await openReceiver();
  const bench = await openWebhooks({ urls: [receiver.url] });
  try {
    await bench.call("POST", "/v1/sessions/of-a", { token: "key-of-a", json: { agent: "scripted" } });
    const { body } = await receiver.until(({ type }) => type === "session.created");
    expect(JSON.parse(body)).toMatchObject({ data: { id: "sesn_of-a", workspace_id: "wrkspc_a" } });
  } finally {
    await bench.close();
    await receiver.close();
  }
});
