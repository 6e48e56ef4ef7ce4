import { HttpAgent } from "@ag-ui/client";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { HttpAgent as HttpAgent0 } from "ag-ui-client-0";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/index.ts";
import { parseLine } from "../../../src/dialects/ndjson/index.ts";
import { Sluice } from "../../../src/sdk/index.ts";
import { runTurn, say, script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { type AnthropicBench, KEY, openAnthropic } from "../anthropic/anthropic-bench.ts";
import { message, watch } from "../anthropic/session-bench.ts";
import { SseReader } from "../sse-reader.ts";

const PROMPT = script({ say: "never said" });
const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };

describe("a message that still waits when its session is deleted ends for", () => {
  let bench: AnthropicBench;
  beforeAll(async () => {
    bench = await openAnthropic();
  });
  afterAll(() => bench.close());

  /** A session that accepts messages and starts no turn. */
  const open = async (id: string): Promise<void> => {
    await bench.test.engine.create(id, { agent: "scripted", sandbox: "local" });
    await runTurn(bench.test, id, script({ say: "ready" }));
    await bench.test.engine.pause(id);
  };
  const queued = async (id: string, count: number): Promise<void> => {
    await expect.poll(async () => (await bench.test.engine.info(id)).queued, { timeout: 20_000 }).toBe(count);
  };
  /** Sends a message by `run`, and deletes the session while the message waits. */
  const runAndDelete = async <T>(id: string, run: () => Promise<T>): Promise<T> => {
    const running = run();
    await Promise.race([running, queued(id, 1)]);
    await bench.test.engine.remove(id);
    return running;
  };

  it("a reader of the log: each becomes a turn with one end, before session.deleted", async () => {
    await open("log");
    const reader = await SseReader.open(`${bench.url}/v1/sessions/log/events/sse?extensions=true`, headers);
    const first = await say(bench.test.engine, "log", PROMPT);
    const second = await say(bench.test.engine, "log", PROMPT);
    await bench.test.engine.remove("log");
    await reader.finished;
    const events = reader.frames.map(({ data }) => JSON.parse(data));
    expectLawful(events);
    expect(events.at(-1)).toMatchObject({ type: "session.deleted" });
    const ends = events.filter(({ type }) => type === "turn.ended").slice(-2);
    expect(ends.map(({ data }) => data)).toEqual(
      [first, second].map(({ turnId }) => ({
        turn_id: turnId,
        status: "interrupted",
        stop_reason: "terminated",
      })),
    );
  });

  it("the universal client's messageStream()", async () => {
    await open("universal");
    const client = createClient({ url: bench.url, token: KEY });
    const types = await runAndDelete("universal", async () => {
      const seen: string[] = [];
      for await (const { type } of client.messageStream("universal", PROMPT, { extensions: true }))
        seen.push(type);
      return seen;
    });
    expect(types.at(-1)).toBe("turn.ended");
  });

  it.each([
    ["1.0.0", HttpAgent, { type: "RUN_FINISHED", outcome: { type: "cancelled" } }],
    ["0.0.59", HttpAgent0, { type: "RUN_ERROR", code: "cancelled" }],
  ] as const)("@ag-ui/client %s", async (version, Agent, end) => {
    const threadId = `ag-ui-${version}`;
    await open(threadId);
    const url = `${bench.url}/ag-ui/scripted`;
    const agent = new (Agent as typeof HttpAgent)({ url, threadId, headers });
    const seen: unknown[] = [];
    agent.subscribe({ onEvent: ({ event }) => void seen.push(event) });
    agent.addMessage({ id: "u1", role: "user", content: PROMPT });
    await runAndDelete(threadId, () => agent.runAgent().catch(() => {}));
    expect(seen.at(-1)).toMatchObject(end);
  });

  it("TanStack's ChatClient", async () => {
    await open("tanstack");
    const url = `${bench.url}/ag-ui/scripted`;
    const errors: Error[] = [];
    const chat = new ChatClient({
      connection: fetchServerSentEvents(url, { headers }),
      threadId: "tanstack",
      onError: (error) => errors.push(error),
    });
    await runAndDelete("tanstack", () => chat.sendMessage(PROMPT));
    expect(errors.map(({ message }) => message)).toEqual(["The run was cancelled."]);
  });

  it("a client of NDJSON lines, and a browser's stream", async () => {
    await open("lines");
    const body = JSON.stringify({ conversation: "lines", prompt: PROMPT });
    const call = (path: string): Promise<Response> =>
      fetch(`${bench.url}/ndjson${path}`, { method: "POST", headers, body });
    const text = await runAndDelete("lines", async () => (await call("/stream")).text());
    const lines = text.trimEnd().split("\n").map(parseLine);
    expect(lines.at(-1)).toMatchObject({ type: "error", code: "cancelled" });

    await open("lines");
    const { stream } = (await (await call("/chat")).json()) as { stream: string };
    const reader = await SseReader.open(bench.url + stream, headers);
    await bench.test.engine.remove("lines");
    await reader.finished;
    const frames = reader.frames.map(({ data }) => JSON.parse(data));
    expect(frames.slice(-2)).toMatchObject([{ type: "error", code: "cancelled" }, { type: "done" }]);
  });

  it("the Anthropic SDK's stream, which shows the message as handled", async () => {
    await open("managed");
    const events = await watch(
      bench,
      "managed",
      () => runAndDelete("managed", async () => bench.send("managed", message(PROMPT))),
      ({ type }) => type === "session.deleted",
    );
    const types = events.map(({ type }) => type);
    expect(types).toEqual(["user.message", "session.status_running", "session.deleted"]);
    expect(events[0]).toMatchObject({ processed_at: expect.any(String) });
  });

  it("the SDK's run()", async () => {
    const sluice = new Sluice().withServer(bench.url, KEY).withSandbox("local");
    try {
      await sluice.run({ prompt: script({ say: "ready" }) });
      const id = sluice.getSession() ?? "";
      await bench.test.engine.pause(id);
      const ended = await runAndDelete(id, () => sluice.run({ prompt: PROMPT }));
      expect(ended).toMatchObject({ exitCode: 130 });
    } finally {
      await sluice.close();
    }
  });
});

describe("a command that runs when its session is deleted", () => {
  it("ends in the log and for its client", async () => {
    const bench = await openAnthropic();
    const sluice = new Sluice().withServer(bench.url, KEY).withSandbox("local");
    try {
      await sluice.run({ prompt: script({ say: "ready" }) });
      const id = sluice.getSession() ?? "";
      const reader = await SseReader.open(
        `${bench.url}/v1/sessions/${id}/events/sse?extensions=true`,
        headers,
      );
      const running = sluice.executeCommand("sleep 600");
      await reader.until((text) => text.includes("command.started"));
      await bench.test.engine.remove(id);
      await reader.finished;
      const types = reader.frames.map(({ data }) => (JSON.parse(data) as { type: string }).type);
      expect(types.slice(-2)).toEqual(["command.ended", "session.deleted"]);
      expect(await running).toMatchObject({ exitCode: 130 });
    } finally {
      await sluice.close();
      await bench.close();
    }
  });
});
