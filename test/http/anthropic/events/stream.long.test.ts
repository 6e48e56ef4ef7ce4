import Anthropic from "@anthropic-ai/sdk";
import { accumulateManagedAgentsEvent } from "@anthropic-ai/sdk/lib/sessions/accumulate";
import Anthropic086 from "anthropic-sdk-086";
import Anthropic095 from "anthropic-sdk-095";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, BETA, KEY, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  expectListed,
  history,
  idsOf,
  isEnd,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  turn,
  typesOf,
  watch,
} from "../session-bench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic({ pingMs: 200 });
});
afterAll(() => bench.close());

const isToolUse = (event: Event): boolean => event.type === "agent.tool_use";

/** The bytes of a stream until `isEnough`. */
async function readRaw(
  path: string,
  options: {
    headers?: Record<string, string>;
    act?: () => PromiseLike<unknown>;
    isEnough: (text: string) => boolean;
  },
): Promise<{ headers: Headers; text: string }> {
  const abort = new AbortController();
  const answer = await fetch(`${bench.url}/anthropic/v1${path}`, {
    headers: { authorization: `Bearer ${KEY}`, "anthropic-beta": BETA, ...options.headers },
    signal: abort.signal,
  });
  const acting = options.act?.();
  let text = "";
  const decoder = new TextDecoder();
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    if (options.isEnough(text)) break;
  }
  abort.abort();
  await acting;
  return { headers: answer.headers, text };
}

describe("F1: a stream of an idle session", () => {
  it("responds at once without an event, for any Accept header", async () => {
    const { id } = await makeSession(bench);
    const { headers, text } = await readRaw(`/sessions/${id}/events/stream`, {
      headers: { accept: "application/json" },
      isEnough: (text) => text.includes(": ping"),
    });
    expect(headers.get("content-type")).toContain("text/event-stream");
    expect(headers.get("content-encoding")).toBeNull();
    expect(headers.get("request-id")).toMatch(/^req_/);
    expect(text).not.toContain("data:");
  });
});

describe("F2, F3: a stream", () => {
  it("has the turns after its start and no earlier events", async () => {
    const { id } = await makeSession(bench);
    const first = await turn(bench, id, { say: "one" });
    expect(typesOf(first)).toEqual(
      expect.arrayContaining([
        "user.message",
        "session.status_running",
        "agent.message",
        "session.status_idle",
      ]),
    );
    const second = await turn(bench, id, { say: "two" });
    expect(idsOf(second).filter((one) => idsOf(first).includes(one))).toEqual([]);
    expect(ofType(second, "agent.message")[0]?.content).toEqual([{ type: "text", text: "two" }]);
    await expectListed(bench, id, [...first, ...second]);
  });

  it("that is opened during a turn continues from there", async () => {
    const { id } = await makeSession(bench);
    const first = await watch(
      bench,
      id,
      () => bench.send(id, message(text({ shell: "sleep 0.5" }, { say: "x" }))),
      isToolUse,
    );
    const rest = await watch(bench, id, async () => {});
    expect(ofType(rest, "agent.tool_result")[0]?.tool_use_id).toBe(ofType(first, "agent.tool_use")[0]?.id);
    await expectListed(bench, id, [...first, ...rest]);
  });

  it("releases a reader that disconnects", async () => {
    const { id } = await makeSession(bench);
    await turn(bench, id, { say: "one" });
    for (let tries = 0; bench.app.streams.feeds > 0 && tries < 200; tries++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(bench.app.streams.feeds).toBe(0);
  });
});

describe("F5: a frame", () => {
  it("has its name, its id, and one line of JSON", async () => {
    const { id } = await makeSession(bench);
    const { text: bytes } = await readRaw(`/sessions/${id}/events/stream`, {
      act: () => bench.send(id, message(text({ shell: "echo hi" }, { say: "two\nlines" }))),
      isEnough: (text) => text.includes('"end_turn"') && text.endsWith("\n\n"),
    });
    const frames = bytes.split("\n\n").filter((frame) => frame.includes("data:"));
    expect(frames.length).toBeGreaterThan(5);
    for (const frame of frames) {
      const [, type, eventId, data] = /^event: (\S+)\nid: (\S+)\ndata: (.+)$/.exec(frame) ?? [];
      expect(JSON.parse(data ?? "")).toMatchObject({ type, id: eventId });
    }
    expect(bytes).not.toContain("\r");
  });
});

describe("F6: silence", () => {
  it("has heartbeats that no client surfaces", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { sleep: 900 }, { say: "late" });
    expect(typesOf(events).every((type) => /^(user|agent|session|span)\./.test(type))).toBe(true);
  });
});

describe("Last-Event-ID", () => {
  it("resumes behind any event without repeats", async () => {
    const { id } = await makeSession(bench);
    await turn(
      bench,
      id,
      { think: "hm" },
      { parallel: [{ shell: "echo a" }, { shell: "echo b" }] },
      { say: "x" },
    );
    await watch(bench, id, () => bench.send(id, message(text({ sleep: 300 }, { say: "y" }))), isRunning);
    let ends = 0;
    await watch(
      bench,
      id,
      () => bench.send(id, message(text({ say: "z" }))),
      (event) => isEnd(event) && ++ends === 2,
    );
    const all = await history(bench, id);
    for (const [index, seen] of idsOf(all).entries()) {
      if (index === all.length - 1) continue;
      const { text: bytes } = await readRaw(`/sessions/${id}/events/stream`, {
        headers: { "last-event-id": seen },
        isEnough: (text) => text.includes(`id: ${idsOf(all).at(-1)}\n`),
      });
      const ids = [...bytes.matchAll(/^id: (\S+)$/gm)].map((match) => match[1]);
      const told = ids.filter((one) => !one?.endsWith("-queued"));
      expect(told, `behind ${index}`).toEqual(idsOf(all).slice(index + 1));
    }
    const answer = await bench.raw("GET", `/sessions/${id}/events/stream`, {
      headers: { authorization: `Bearer ${KEY}`, "anthropic-beta": BETA, "last-event-id": "sevt_nope" },
    });
    expect(answer.status).toBe(400);
  });
});

describe("F8: previews", () => {
  it("start, grow and become the event of the same id, for subscribed readers only", async () => {
    const { id } = await makeSession(bench);
    const plain = watch(bench, id, async () => {});
    const stream = await bench.beta.sessions.events.stream(id, {
      event_deltas: ["agent.message", "agent.thinking"],
    });
    await bench.send(
      id,
      message(text({ think: "hm" }, { say: "one two three", chunks: 3 }, { shell: "true" }, { say: "four" })),
    );
    const events: Event[] = [];
    for await (const event of stream) {
      events.push(event);
      if (event.type === "session.status_idle") break;
    }
    const starts = ofType(events, "event_start");
    expect(starts.map(({ event }) => event.type)).toEqual([
      "agent.thinking",
      "agent.message",
      "agent.message",
    ]);
    let accumulated: Parameters<typeof accumulateManagedAgentsEvent>[0];
    let previewed = 0;
    for (const event of events) {
      if (event.type === "agent.message") {
        expect(accumulated?.content).toEqual(event.content);
        expect(accumulated?.id).toBe(event.id);
        previewed += 1;
      }
      accumulated = accumulateManagedAgentsEvent(accumulated, event);
    }
    expect(previewed).toBe(2);
    expect(ofType(events, "event_delta").length).toBeGreaterThanOrEqual(4);
    expect(typesOf(await plain).filter((type) => type.startsWith("event_"))).toEqual([]);
    await expectListed(bench, id, events);
    const wrong = bench.beta.sessions.events.stream(id, { event_deltas: ["x" as never] });
    await expect(wrong).rejects.toMatchObject({ status: 400 });
  });
});

describe("F10: older SDKs", () => {
  it.each([
    ["0.86", Anthropic086],
    ["0.95", Anthropic095],
  ])("%s reads the stream", async (_, Old) => {
    const { id } = await makeSession(bench);
    const client = new (Old as unknown as typeof Anthropic)({
      apiKey: KEY,
      baseURL: `${bench.url}/anthropic`,
    });
    const stream = await client.beta.sessions.events.stream(id);
    await client.beta.sessions.events.send(id, { events: [message(text({ say: "hi" }))] });
    const types: string[] = [];
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "session.status_idle") break;
    }
    expect(types).toEqual(typesOf(await history(bench, id)));
  });
});
