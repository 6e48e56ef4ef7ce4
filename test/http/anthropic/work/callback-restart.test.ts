import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../../../support/server.ts";
import { makeSession } from "../session-bench.ts";
import { freshNonce, register, post, said, custom } from "./callback-bench.ts";

describe("H6: after kill -9", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  }, 60_000);
  afterAll(() => server.close());

  it("the secret is still valid, and a nonce is still known", async () => {
    const client = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` });
    const { id } = await makeSession(client);
    const { secret, run_id } = await register(client, id);
    const report = { body: said(run_id, custom("once")), secret, nonce: freshNonce() };
    expect(await (await post(server.url, id, report)).json()).toMatchObject({ accepted: 1 });
    await server.kill();
    await server.start();
    expect(await (await post(server.url, id, report)).json()).toMatchObject({ accepted: 0, duplicate: true });
    const next = { ...report, body: said(run_id, custom("next")) };
    expect((await post(server.url, id, next)).status).toBe(409);
    const fresh = { ...next, nonce: freshNonce() };
    expect(await (await post(server.url, id, fresh)).json()).toMatchObject({ accepted: 1 });
    const { events } = (await (await server.fetch(`/v1/sessions/${id}/events?extensions=true`)).json()) as {
      events: { type: string }[];
    };
    expect(events.filter(({ type }) => type === "custom")).toHaveLength(2);
  });
});
