import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createApp, listen, type Listening } from "../../../src/http/index.ts";
import { openEngine, readAll, script, type TestEngine, waitFor } from "../../support/engine.ts";
import { codeOf } from "../app-bench.ts";

let test: TestEngine;
let server: Listening;

async function start(): Promise<void> {
  const app = createApp({ engine: test.engine, token: false, version: "1", logger: () => {} });
  server = await listen({ app, host: "127.0.0.1", port: 0 });
}

async function restart(): Promise<void> {
  await server.close();
  await test.restart();
  await start();
}

beforeEach(async () => {
  test = await openEngine({ defaultSandbox: "local" });
  await start();
  expect((await post("/v1/sessions/s", { agent: "scripted" })).status).toBe(200);
});
afterEach(async () => {
  await server.close();
  await test.close();
});

function post(path: string, body: unknown, key?: string): Promise<Response> {
  const headers = { "content-type": "application/json", ...(key && { "idempotency-key": key }) };
  return fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
}

const count = async (session: string, type: string): Promise<number> =>
  (await readAll(test.log, session)).filter((event) => event.type === type).length;

/** The path, the body, another body, and the event of one effect. */
const REQUESTS: readonly [what: string, path: string, body: unknown, other: unknown, event: string][] = [
  ["a message", "messages", { message: "hello" }, { message: "other" }, "input.accepted"],
  ["a command", "commands", { command: "echo $$ >> ran" }, { command: "true" }, "command.started"],
  ["a checkpoint", "checkpoints", { comment: "one" }, { comment: "two" }, "checkpoint.created"],
];

describe("an idempotency key", () => {
  it.each(REQUESTS)("makes %s once, across a restart", async (_, path, body, other, event) => {
    const url = `/v1/sessions/s/${path}`;
    const first = await post(url, body, "k");
    expect(first.status).toBeLessThan(300);
    const answer = [first.status, await first.text(), first.headers.get("sluice-turn-id")];
    const again = async (): Promise<unknown[]> => {
      const resent = await post(url, body, "k");
      return [resent.status, await resent.text(), resent.headers.get("sluice-turn-id")];
    };
    expect(await again()).toEqual(answer);
    if (path === "commands") await waitFor(test.log, "s", "command.ended");
    if (path === "messages") await waitFor(test.log, "s", "turn.ended");
    await restart();
    expect(await again()).toEqual(answer);
    expect(await count("s", event)).toBe(1);
    const conflict = await post(url, other, "k");
    expect([conflict.status, await codeOf(conflict)]).toEqual([409, "idempotency_conflict"]);
    expect(await count("s", event)).toBe(1);
  });

  it("answers a resend while the command still runs", async () => {
    const run = () => post("/v1/sessions/s/commands", { command: "sleep 60" }, "k");
    const answers = await Promise.all([run(), run(), run()]);
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(new Set(texts).size).toBe(1);
    expect(await count("s", "command.started")).toBe(1);
  });

  it("restores a checkpoint once", async () => {
    const { id } = (await (await post("/v1/sessions/s/checkpoints", {})).json()) as { id: string };
    const restore = async (checkpoint: string): Promise<Response> =>
      post("/v1/sessions/s/restore", { checkpoint }, "k");
    const first = await (await restore(id)).json();
    await restart();
    expect(await (await restore(id)).json()).toEqual(first);
    expect(await count("s", "checkpoint.restored")).toBe(1);
    expect((await restore("latest")).status).toBe(409);
  });

  it("creates a session once, and a fork", async () => {
    for (const [id, spec] of [
      ["new", { agent: "scripted", title: "T" }],
      ["copy", { agent: "scripted", fork: { session: "s" } }],
    ] as const) {
      const create = (body: object = spec): Promise<Response> => post(`/v1/sessions/${id}`, body, "k");
      const answers = await Promise.all([create(), create()]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
      await restart();
      expect(await (await create()).json()).toEqual(await answers[0]?.json());
      const conflict = await create({ ...spec, title: "U" });
      expect([conflict.status, await codeOf(conflict)]).toEqual([409, "idempotency_conflict"]);
      const unkeyed = await post(`/v1/sessions/${id}`, spec);
      expect([unkeyed.status, await codeOf(unkeyed)]).toEqual([409, "session_already_exists"]);
      const otherKey = await post(`/v1/sessions/${id}`, spec, "other");
      expect([otherKey.status, await codeOf(otherKey)]).toEqual([409, "session_already_exists"]);
    }
    expect(await count("copy", "checkpoint.restored")).toBe(1);
  });

  it("gives an answer once, also when it is sent again", async () => {
    await post("/v1/sessions/s/messages", { message: script({ ask: { shell: "true" } }) });
    const asked = await waitFor(test.log, "s", "permission.requested");
    const url = `/v1/sessions/s/permissions/${asked.data.permission_id}/reply`;
    expect((await post(url, { reply: "once" }, "k")).status).toBe(204);
    expect((await post(url, { reply: "once" }, "k")).status).toBe(204);
    const conflict = await post(url, { reply: "reject" }, "k");
    expect([conflict.status, await codeOf(conflict)]).toEqual([409, "idempotency_conflict"]);
    const second = await post(url, { reply: "once" });
    expect([second.status, await codeOf(second)]).toEqual([409, "already_resolved"]);
    expect(await count("s", "permission.resolved")).toBe(1);
  });

  it("belongs to one kind of request", async () => {
    await post("/v1/sessions/s/checkpoints", {}, "k");
    const conflict = await post("/v1/sessions/s/commands", { command: "true" }, "k");
    expect([conflict.status, await codeOf(conflict)]).toEqual([409, "idempotency_conflict"]);
  });

  it.each(["", "x".repeat(256)])("has 1 to 255 characters: %s", async (key) => {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const url = `${server.url}/v1/sessions/s/commands`;
    const body = JSON.stringify({ command: "true" });
    expect((await fetch(url, { method: "POST", headers, body })).status).toBe(400);
  });
});
