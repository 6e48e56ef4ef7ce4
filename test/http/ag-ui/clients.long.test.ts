import { type BaseEvent, EventType, HttpAgent } from "@ag-ui/client";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { HttpAgent as HttpAgent0 } from "ag-ui-client-0";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { customs, expectTellable, typesOf } from "../../dialects/ag-ui/oracle.ts";
import { ofType, readAll, say, script, waitFor } from "../../support/engine.ts";
import { type AgUiBench, input, openAgUi, toTold } from "./ag-ui-bench.ts";

let bench: AgUiBench;

beforeAll(async () => {
  bench = await openAgUi();
});

afterAll(async () => {
  await bench.close();
});

const PROMPT = script(
  { think: "hmm" },
  { say: "a b c", chunks: 3 },
  { shell: "echo hi" },
  { write: { path: "f.txt", content: "x" } },
  { plan: [{ content: "p", status: "pending", priority: "medium" }] },
  { plan: [{ content: "p", status: "completed", priority: "medium" }] },
  { subagent: { name: "r", steps: [{ say: "inner" }, { shell: "echo sub" }] } },
  { say: "end" },
);

describe("a run over HTTP", () => {
  it("passes the verifiers of both client generations (TS-01, TS-02, TS-11, AG-06, AG-09, AG-23, AG-25)", async () => {
    const body = input("t-raw", PROMPT);
    const told = await bench.run(body);
    await expectTellable(told);
    expect(told[0]).toMatchObject({ type: "RUN_STARTED", threadId: "t-raw", runId: body["runId"] });
    expect(told.at(-1)).toMatchObject({ type: "RUN_FINISHED", threadId: "t-raw", runId: body["runId"] });
    expect(told.at(-1)).toMatchObject({
      outcome: { type: "success" },
      metadata: { tanstack: { finishReason: "stop" } },
    });
    expect(customs(told, "scripted.session-id")).toHaveLength(1);
    expect(customs(told, "sandbox.file").map(({ value }) => value)).toEqual([
      { type: "create", path: "/home/user/workspace/f.txt", timestamp: expect.any(Number) as number },
    ]);
  });

  it.each([
    ["1.0.0", HttpAgent, "t-1"],
    ["0.0.59", HttpAgent0, "t-0"],
  ] as const)(
    "works with @ag-ui/client %s, and warns of nothing (AG-02, AG-03, AG-20)",
    async (_, Agent, threadId) => {
      const warn = vi.spyOn(console, "warn");
      const agent = new (Agent as typeof HttpAgent)({ url: `${bench.url}/ag-ui/scripted`, threadId });
      agent.addMessage({ id: "u1", role: "user", content: PROMPT });
      const { newMessages } = await agent.runAgent();
      expect(warn.mock.calls).toEqual([]);
      warn.mockRestore();
      expect(newMessages.map(({ role }) => role)).toEqual(
        "reasoning assistant tool assistant tool activity assistant tool assistant tool assistant".split(" "),
      );
      expect(newMessages.filter(({ role }) => role === "activity")).toMatchObject([
        { activityType: "PLAN", content: { entries: [{ content: "p", status: "completed" }] } },
      ]);
    },
  );

  it("asks a 1.0.0 client for permission and continues with its answer (AG-16, AG-17, AG-18)", async () => {
    const agent = new HttpAgent({ url: `${bench.url}/ag-ui/scripted`, threadId: "t-ask" });
    const told: BaseEvent[] = [];
    agent.subscribe({ onEvent: ({ event }) => void told.push(event) });
    agent.addMessage({
      id: "u1",
      role: "user",
      content: script({ ask: { shell: "echo allowed" } }, { say: "done" }),
    });
    await agent.runAgent({ runId: "ask-1" });
    const [interrupt] = agent.pendingInterrupts;
    expect(interrupt).toMatchObject({
      reason: "tool_call",
      toolCallId: expect.any(String) as string,
      responseSchema: { type: "object", required: ["approved"] },
    });
    const types = told.map(({ type }) => type);
    expect(types.indexOf(EventType.STATE_SNAPSHOT)).toBe(types.length - 2);
    expect(agent.state).toMatchObject({ sluice: { status: "waiting", pending: [{ id: interrupt?.id }] } });
    await expect(agent.runAgent()).rejects.toThrow();
    const refused = await bench.post(input("t-ask", "more"));
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ pending: [{ id: interrupt?.id, kind: "permission" }] });
    told.length = 0;
    const resume = [
      { interruptId: interrupt?.id ?? "", status: "resolved" as const, payload: { approved: true } },
    ];
    await agent.runAgent({ runId: "ask-2", resume });
    expect(told[0]).toMatchObject({ type: "RUN_STARTED", runId: "ask-2", threadId: "t-ask" });
    expect(told).toContainEqual(
      expect.objectContaining({
        type: "TOOL_CALL_RESULT",
        toolCallId: interrupt?.toolCallId,
        content: "allowed\n",
      }),
    );
    expect(agent.pendingInterrupts).toEqual([]);
  });

  it("asks a 0.0.59 client a question and continues with its answer (AG-16, AG-18)", async () => {
    const agent = new HttpAgent0({ url: `${bench.url}/ag-ui/scripted`, threadId: "t-ask-0" });
    const steps = script({ question: { prompt: "which?", options: ["red", "blue"] } }, { say: "done" });
    agent.addMessage({ id: "u1", role: "user", content: steps });
    await agent.runAgent();
    const [interrupt] = agent.pendingInterrupts;
    expect(interrupt).toMatchObject({ reason: "input_required", message: "which?" });
    const resume = [
      { interruptId: interrupt?.id ?? "", status: "resolved" as const, payload: { answer: "blue" } },
    ];
    const { newMessages } = await agent.runAgent({ resume });
    expect(newMessages.map(({ content }) => content)).toEqual(["blue", "done"]);
  });

  it("ends the running run of a thread and not a queued message after it, where no run is named", async () => {
    const threadId = "t-stop-first";
    const first = bench.run(input(threadId, script({ shell: "sleep 60" })));
    await vi.waitUntil(() => bench.test.log.find(threadId), { timeout: 30_000 });
    await waitFor(bench.test.log, threadId, "item.started", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    // Another client of the same session, in another dialect.
    await say(bench.test.engine, threadId, script({ say: "next" }));
    expect((await bench.call("DELETE", `/ag-ui/scripted?threadId=${threadId}`)).status).toBe(204);
    await first;
    await waitFor(bench.test.log, threadId, "turn.ended", {
      where: ({ data }) => data.status === "completed",
    });
    const ends = ofType(await readAll(bench.test.log, threadId), "turn.ended");
    expect(ends.map(({ data }) => data.status)).toEqual(["interrupted", "completed"]);
  });

  it("ends a cancelled run as cancelled for new clients and as an error for old ones (AG-14)", async () => {
    const outcomes = [];
    for (const protocolVersion of ["1.0", undefined]) {
      const body = input(`t-stop-${protocolVersion}`, script({ shell: "sleep 60" }), { protocolVersion });
      const running = bench.run(body);
      const { threadId, runId } = body as { threadId: string; runId: string };
      await vi.waitUntil(() => bench.test.log.find(threadId), { timeout: 30_000 });
      await waitFor(bench.test.log, threadId, "item.started", {
        where: ({ data }) => data.item.kind === "tool_result",
      });
      const stopped = await bench.call("DELETE", `/ag-ui/scripted?threadId=${threadId}&runId=${runId}`);
      expect(stopped.status).toBe(204);
      const told = await running;
      await expectTellable(told, protocolVersion === undefined ? {} : { protocol: "1.0" });
      expect(typesOf(told)).toContain("TOOL_CALL_RESULT");
      outcomes.push(told.at(-1));
    }
    expect(outcomes).toMatchObject([
      { type: "RUN_FINISHED", outcome: { type: "cancelled" } },
      { type: "RUN_ERROR", code: "cancelled" },
    ]);
  });

  it("sends the same events as protobuf if the client accepts it (AG-08)", async () => {
    const url = `${bench.url}/ag-ui/scripted`;
    const headers = { accept: "application/vnd.ag-ui.event+proto" };
    const agent = new HttpAgent({ url, threadId: "t-proto", headers });
    const told: BaseEvent[] = [];
    agent.subscribe({ onEvent: ({ event }) => void told.push(event) });
    agent.addMessage({ id: "u1", role: "user", content: PROMPT });
    await agent.runAgent({ runId: "proto-1" });
    const content = script({ usage: { input_tokens: 1, output_tokens: 2 } }, { ask: { shell: "echo hi" } });
    agent.addMessage({ id: "u2", role: "user", content });
    await agent.runAgent({ runId: "proto-2" });
    const resume = agent.pendingInterrupts.map(({ id }) => ({
      interruptId: id,
      status: "resolved" as const,
      payload: { approved: true },
    }));
    expect(resume).toHaveLength(1);
    await agent.runAgent({ runId: "proto-3", resume });
    const lines = [];
    for (const runId of ["proto-1", "proto-2", "proto-3"]) {
      const query = `offset=-1&runId=${runId}&protocolVersion=1.0`;
      lines.push(...toTold(await (await bench.call("GET", `/ag-ui/scripted?${query}`)).text()));
    }
    expect(JSON.parse(JSON.stringify(told))).toEqual(lines);
    const response = await bench.post(input("t-proto-2", "hello"), { headers });
    expect(response.headers.get("content-type")).toBe("application/vnd.ag-ui.event+proto");
    await response.body?.cancel();
  });

  it("reports a missing agent to all clients (AG-13)", async () => {
    vi.stubEnv("PATH", "/nowhere");
    const url = `${bench.url}/ag-ui/claude`;
    const errors: unknown[] = [];
    for (const Agent of [HttpAgent, HttpAgent0 as unknown as typeof HttpAgent]) {
      const agent = new Agent({ url, threadId: "t-none" });
      agent.subscribe({ onRunErrorEvent: ({ event }) => void errors.push(event) });
      agent.addMessage({ id: "u1", role: "user", content: "hello" });
      await agent.runAgent();
    }
    const chat = new ChatClient({ connection: fetchServerSentEvents(url), threadId: "t-none" });
    await chat.sendMessage("hello");
    vi.unstubAllEnvs();
    const said = expect.stringMatching(/Claude.* is not installed/) as string;
    expect(errors).toEqual(
      [1, 0].map(() => expect.objectContaining({ code: "agent_not_installed", message: said }) as object),
    );
    expect(chat.getStatus()).toBe("error");
    expect(chat.getError()?.message).toEqual(said);
    chat.dispose();
    expect(await bench.test.log.find("t-none")).toBeUndefined();
  });

  it("sends RAW events only on request (AG-27, AG-28)", async () => {
    const prompt = script({ raw: "no json at all" }, { say: "x" });
    const plain = await bench.run(input("t-raw-0", prompt));
    expect(typesOf(plain)).not.toContain("RAW");
    const told = await bench.run(input("t-raw-1", prompt), { query: "?raw=1" });
    await expectTellable(told);
    const raw = told.filter(({ type }) => type === "RAW");
    expect(raw.every(({ source }) => source === "scripted")).toBe(true);
    expect(raw.map(({ event }) => event)).toContain("no json at all");
  });

  it("reports a failed model (AG-13)", async () => {
    const told = await bench.run(input("t-fail", script({ say: "x" }, { fail: { kind: "terminal" } })));
    await expectTellable(told);
    expect(told.at(-1)).toMatchObject({ type: "RUN_ERROR", code: expect.any(String) as string });
  });
});
