import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, KEY, openAnthropic } from "./anthropic-bench.ts";
import {
  type Event,
  history,
  isEnd,
  makeSession,
  message,
  ofType,
  text,
  turn,
  watch,
} from "./session-bench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const said = (events: readonly Event[]): string[] =>
  ofType(events, "agent.message").flatMap(({ content }) =>
    content.map((block) => (block.type === "text" ? block.text : "")),
  );

const runs: string[] = [];
const bash = betaTool({
  name: "bash",
  description: "",
  inputSchema: { type: "object", properties: { command: { type: "string" } } } as const,
  run: ({ command }) => {
    runs.push(String(command));
    return `ran ${String(command)}`;
  },
});
const weather = betaTool({
  name: "weather",
  description: "",
  inputSchema: { type: "object", properties: { city: { type: "string" } } } as const,
  run: ({ city }) => `sunny in ${String(city)}`,
});

describe("K1: events.toolRunner", () => {
  it("answers the application's own tools", async () => {
    const custom = { type: "custom", name: "weather", description: "", input_schema: { type: "object" } };
    const { id } = await makeSession(bench, { tools: [custom] });
    const abort = new AbortController();
    const runner = bench.beta.sessions.events.toolRunner(id, {
      tools: [weather],
      maxIdleMs: 200,
      signal: abort.signal,
    });
    const running = collect(runner);
    const events = await watch(
      bench,
      id,
      () => bench.send(id, message(text({ custom: { name: "weather", input: { city: "Rome" } } }))),
      isEnd,
    );
    expect(said(events)).toEqual(["sunny in Rome"]);
    const calls = await running;
    abort.abort();
    expect(calls).toHaveLength(1);
  });
});

describe("K2: a tool runner and a tool that needs a confirmation", () => {
  it.each(["allow", "deny"])("holds the call until another client decides: %s", async (result) => {
    runs.length = 0;
    const ask = {
      type: "agent_toolset_20260401",
      default_config: { permission_policy: { type: "always_ask" } },
    };
    const { id } = await makeSession(bench, { tools: [ask], selfHosted: true });
    const abort = new AbortController();
    const runner = bench.beta.sessions.events.toolRunner(id, {
      tools: [bash],
      maxIdleMs: 200,
      signal: abort.signal,
    });
    const running = collect(runner);
    const first = await turn(bench, id, { shell: "echo hi" }, { say: "done" });
    const [use] = ofType(first, "agent.tool_use");
    expect(runs).toEqual([]);
    const confirmation = { type: "user.tool_confirmation", tool_use_id: use?.id, result };
    const events = await watch(bench, id, () => bench.send(id, confirmation), isEnd);
    expect(said(events)).toEqual(["done"]);
    await running;
    abort.abort();
    expect(runs).toEqual(result === "allow" ? ["echo hi"] : []);
    expect(ofType(await history(bench, id), "user.tool_result")).toHaveLength(result === "allow" ? 1 : 0);
  });
});

describe("K3: a worker of a self-hosted environment", () => {
  it("finds the session, runs its tools, and leaves the queue empty", async () => {
    const workdir = await mkdtemp(join(tmpdir(), "sluice-worker-"));
    const { id, environmentId } = await makeSession(bench, { selfHosted: true });
    const { work } = bench.beta.environments;
    expect(await work.stats(environmentId)).toMatchObject({ type: "work_queue_stats", depth: 1 });
    const abort = new AbortController();
    const worker = work.worker({
      environmentId,
      environmentKey: KEY,
      workdir,
      maxIdleMs: 300,
      signal: abort.signal,
    });
    const running = worker.run();
    const events = await watch(
      bench,
      id,
      () =>
        bench.send(
          id,
          message(text({ shell: "echo from the worker > here.txt && cat here.txt" }, { say: "done" })),
        ),
      isEnd,
    );
    expect(said(events)).toEqual(["done"]);
    expect(JSON.stringify(ofType(await history(bench, id), "user.tool_result"))).toContain("from the worker");
    expect(await readFile(join(workdir, "here.txt"), "utf8")).toBe("from the worker\n");
    const states = async (): Promise<string[]> =>
      (await collect(work.list(environmentId))).map(({ state }) => state);
    for (let tries = 0; !(await states()).includes("stopped") && tries < 1000; tries++)
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await states()).toEqual(["stopped"]);
    expect(await work.stats(environmentId)).toMatchObject({ depth: 0, oldest_queued_at: null });
    abort.abort();
    await running.catch(() => {});
    await rm(workdir, { recursive: true, force: true });
  });

  it("has its work by leases", async () => {
    const { environmentId: environment_id } = await makeSession(bench, { selfHosted: true });
    const { work } = bench.beta.environments;
    const item = await work.poll(environment_id, { block_ms: 500 });
    const { id = "" } = item ?? {};
    expect(item).toMatchObject({ type: "work", state: "queued", data: { type: "session" } });
    // The secret of the work has the session's token, which the official worker reads.
    const secret = Buffer.from(String(item?.secret), "base64url").toString();
    expect(JSON.parse(secret)).toEqual({ sessions_token: KEY });
    expect(await work.poll(environment_id, { block_ms: 1 })).toBeNull();
    expect(await work.poll(environment_id, { reclaim_older_than_ms: 0, block_ms: 200 })).toMatchObject({
      id,
    });
    expect(await work.ack(id, { environment_id })).toMatchObject({ state: "starting" });
    const first = await work.heartbeat(id, { environment_id, expected_last_heartbeat: "NO_HEARTBEAT" });
    expect(first).toMatchObject({ type: "work_heartbeat", lease_extended: true, state: "active" });
    const stale = work.heartbeat(id, { environment_id, expected_last_heartbeat: "NO_HEARTBEAT" });
    await expect(stale).rejects.toMatchObject({ status: 412, errorCode: "heartbeat_precondition_failed" });
    const expected_last_heartbeat = first.last_heartbeat;
    expect(await work.heartbeat(id, { environment_id, expected_last_heartbeat })).toMatchObject({
      lease_extended: true,
    });
    expect(await work.stop(id, { environment_id })).toMatchObject({ state: "stopping" });
    expect(await work.heartbeat(id, { environment_id })).toMatchObject({ lease_extended: false });
    expect(await work.stop(id, { environment_id, force: true })).toMatchObject({ state: "stopped" });
    await expect(work.stop(id, { environment_id })).rejects.toMatchObject({ status: 409 });
    expect(await work.update(id, { environment_id, metadata: { a: "1" } })).toMatchObject({
      metadata: { a: "1" },
    });
    expect(await work.retrieve(id, { environment_id })).toMatchObject({ id, state: "stopped" });
  });
});
