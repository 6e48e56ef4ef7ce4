import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { attributeOf, type Receiver, startReceiver } from "./receiver.ts";

let receiver: Receiver;
let server: TestServer;
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(async () => {
  await server?.close();
  await receiver.close();
});

async function until(isDone: () => boolean): Promise<void> {
  for (let at = 0; at < 300 && !isDone(); at++) await sleep(100);
  expect(isDone()).toBe(true);
}

async function turn(session: string): Promise<void> {
  const steps = script(
    { shell: "echo hi" },
    { subagent: { name: "r", steps: [{ shell: "true" }] } },
    { say: "the secret words" },
  );
  for await (const _ of server.client.messageStream(session, steps));
}

it(
  "the spans of a turn reach a collector once, over a kill of the server and an outage",
  { timeout: 120_000 },
  async () => {
    const args = ["--otlp", receiver.url, "--sandbox", "local"];
    const env = { OTEL_EXPORTER_OTLP_HEADERS: "x-key=collector-secret", OTEL_SERVICE_NAME: "test-service" };
    server = await startServer({ args, env });
    await server.client.sessions.create("one", { agent: "scripted" });
    // The collector is away at first, and refuses one batch for good later on.
    receiver.answers.push(503, 500);
    await turn("one");
    await until(() => receiver.spans().some(({ parentSpanId }) => parentSpanId === undefined));
    expect(receiver.requests.length).toBeGreaterThanOrEqual(3);
    const first = receiver.spans();
    const traces = new Set(first.map(({ traceId }) => traceId));
    expect(traces.size).toBe(1);
    const ids = new Set(first.map(({ spanId }) => spanId));
    for (const { parentSpanId } of first) if (parentSpanId !== undefined) expect(ids).toContain(parentSpanId);
    const operations = first.map((span) => attributeOf(span, "gen_ai.operation.name"));
    expect(operations).toEqual(expect.arrayContaining(["invoke_agent", "execute_tool"]));

    // Killed while the collector is away: the next start sends the rest.
    receiver.answers.push(...Array.from({ length: 50 }, () => 503));
    await turn("one");
    await until(() => receiver.answers.length < 50);
    await server.kill();
    receiver.answers.length = 0;
    await server.start();
    await until(() => new Set(receiver.spans().map(({ traceId }) => traceId)).size === 2);
    await until(() => receiver.spans().filter(({ parentSpanId }) => parentSpanId === undefined).length >= 2);

    const all = receiver.spans();
    // What was accepted before the kill is not sent again: the cursor had passed it.
    const repeated = all.filter(({ spanId }) => ids.has(spanId));
    expect(repeated).toHaveLength(first.length);
    expect(all.length).toBe(2 * first.length);
    expect(receiver.requests.every(({ path }) => path === "/v1/traces")).toBe(true);
    expect(receiver.requests.every(({ headers }) => headers["x-key"] === "collector-secret")).toBe(true);
    const service = receiver.requests[0]?.body.resourceSpans[0]?.resource.attributes[0]?.value;
    expect(service).toEqual({ stringValue: "test-service" });
    expect(receiver.requests.map(({ text }) => text).join("")).not.toContain("the secret words");
    expect(server.stderr()).not.toContain("collector-secret");
    const metrics = await (await server.fetch("/metrics")).text();
    expect(metrics).toMatch(/^sluice_otlp_spans_exported_total [1-9]/m);
  },
);

it(
  "a batch that the collector never takes is left out, and the next ones go on",
  { timeout: 120_000 },
  async () => {
    server = await startServer({ args: ["--otlp", receiver.url, "--sandbox", "local"] });
    await server.client.sessions.create("one", { agent: "scripted" });
    receiver.answers.push(400, 400, 400, 400);
    await turn("one");
    await until(() => receiver.requests.length > 0);
    await sleep(1_500);
    receiver.answers.length = 0;
    await turn("one");
    await until(() => receiver.spans().some(({ parentSpanId }) => parentSpanId === undefined));
    expect(server.stderr()).toContain("refused spans");
  },
);
