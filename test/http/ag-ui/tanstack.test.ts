import { toolDefinition } from "@tanstack/ai";
import { ChatClient, fetchHttpStream, fetchServerSentEvents, type UIMessage } from "@tanstack/ai-client";
import { canonicalInterruptJson, digestInterruptJson } from "@tanstack/ai/client";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { PERMISSION_SCHEMA, QUESTION_SCHEMA, SCHEMA_HASHES } from "../../../src/dialects/ag-ui/interrupts.ts";
import { script, waitFor } from "../../support/engine.ts";
import { type AgUiBench, openAgUi } from "./ag-ui-bench.ts";
import { cuttingFetch } from "./cut.ts";

let bench: AgUiBench;
let url: string;
beforeAll(async () => {
  bench = await openAgUi();
  url = `${bench.url}/ag-ui/scripted`;
});
afterAll(async () => {
  await bench.close();
});

const PROMPT = script(
  { think: "hmm" },
  { say: "a b c", chunks: 3 },
  { shell: "echo hi" },
  { write: { path: "f.txt", content: "x" } },
);

const partsOf = (messages: readonly UIMessage[]): string[][] =>
  messages.map(({ role, parts }) => [role as string].concat(parts.map(({ type }) => type)));
const withoutTime = (message: UIMessage): UIMessage => ({ ...message, createdAt: undefined as never });
const wordsOf = (messages: readonly UIMessage[]): string[] =>
  messages
    .slice(1)
    .flatMap(({ parts }) => parts.flatMap((part) => (part.type === "text" ? [part.content] : [])));

describe("TanStack's ChatClient at our endpoint", () => {
  it.each([
    ["SSE", () => fetchServerSentEvents(url)],
    ["lines", () => fetchHttpStream(url, { headers: { accept: "application/x-ndjson" } })],
  ])("paints a run over %s (TS-09, TS-33, TS-37)", async (name, connect) => {
    const custom: string[] = [];
    const client = new ChatClient({
      connection: connect(),
      threadId: `chat-${name}`,
      onCustomEvent: (event) => void custom.push(event),
    });
    await client.sendMessage(PROMPT);
    expect(client.getStatus()).toBe("ready");
    expect(partsOf(client.getMessages())).toEqual([
      ["user", "text"],
      ["assistant", "thinking", "text", "tool-call", "tool-result", "tool-call", "tool-result"],
    ]);
    expect(client.getMessages()[1]?.parts[2]).toMatchObject({
      type: "tool-call",
      name: "shell",
      state: "complete",
      output: "hi\n",
    });
    expect(custom).toEqual(["scripted.session-id", "sandbox.file"]);
    client.dispose();
  });

  it("answers the agent's requests by TanStack's interrupt binding", async () => {
    expect(SCHEMA_HASHES).toEqual({
      permission: digestInterruptJson(canonicalInterruptJson(PERMISSION_SCHEMA)),
      question: digestInterruptJson(canonicalInterruptJson(QUESTION_SCHEMA)),
    });
    const client = new ChatClient({ connection: fetchServerSentEvents(url), threadId: "chat-ask" });
    await client.sendMessage(
      script(
        { ask: { shell: "echo allowed" } },
        { question: { prompt: "which?", options: ["a", "b"] } },
        { say: "bye" },
      ),
    );
    await answer(client, { approved: true });
    await vi.waitUntil(() => client.getInterrupts()[0]?.message === "which?", { timeout: 30_000 });
    await answer(client, { answer: "b" });
    await vi.waitUntil(
      () => client.getStatus() === "ready" && wordsOf(client.getMessages()).includes("bye"),
      { timeout: 30_000 },
    );
    expect(wordsOf(client.getMessages())).toEqual(["b", "bye"]);
    expect(client.getInterrupts()).toEqual([]);
    const calls = client
      .getMessages()
      .flatMap(({ parts }) => parts.filter(({ type }) => type === "tool-call"));
    expect(calls).toMatchObject([{ name: "shell", state: "complete", output: "allowed\n" }]);
    client.dispose();
  });

  it("runs its own tools (AG-34)", async () => {
    const weather = toolDefinition({
      name: "weather",
      description: "the weather",
      inputSchema: z.object({ at: z.string() }),
    }).client(({ at }) => ({ sky: `sunny in ${at}` }));
    const client = new ChatClient({
      connection: fetchServerSentEvents(url),
      threadId: "chat-tool",
      tools: [weather],
    });
    await client.sendMessage(script({ custom: { name: "weather", input: { at: "Oslo" } } }, { say: "bye" }));
    await vi.waitUntil(
      () => client.getStatus() === "ready" && wordsOf(client.getMessages()).includes("bye"),
      { timeout: 30_000 },
    );
    expect(wordsOf(client.getMessages())).toEqual(['{"sky":"sunny in Oslo"}', "bye"]);
    client.dispose();
  });

  it("resumes a run after a cut connection and gets each event once", async () => {
    const { fetch: fetchClient, seen } = cuttingFetch(3, 700);
    const client = new ChatClient({
      connection: fetchServerSentEvents(url, { fetchClient, reconnect: { delayMs: 0 } }),
      threadId: "chat-cut",
    });
    await client.sendMessage(
      script({ say: "one two three four five six" }, { shell: "echo hi" }, { say: "end" }),
    );
    expect(seen).toHaveLength(4);
    expect(seen.slice(1).every((id) => id !== "")).toBe(true);
    expect(wordsOf(client.getMessages())).toEqual(["one two three four five six", "end"]);
    const turns = await bench.test.log.read("chat-cut", {
      after: 0,
      limit: 1000,
      types: new Set(["turn.started"]),
    });
    expect(turns).toHaveLength(1);
    client.dispose();
  });

  it("shows a live run on a reopened page (TS-35, TS-38)", async () => {
    const steps = script({ say: "a" }, { shell: "until [ -e go ]; do sleep 0.05; done" }, { say: "z" });
    const first = new ChatClient({ connection: fetchServerSentEvents(url), threadId: "chat-page" });
    void first.sendMessage(steps);
    await vi.waitUntil(() => bench.test.log.find("chat-page"), { timeout: 30_000 });
    await waitFor(bench.test.log, "chat-page", "item.started", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    const second = new ChatClient({
      connection: fetchServerSentEvents(url),
      threadId: "chat-page",
      persistence: true,
    });
    second.attach();
    await vi.waitUntil(() => wordsOf(second.getMessages()).includes("a"), { timeout: 30_000 });
    const files = await bench.test.engine.files("chat-page");
    await files.write("/workspace/go", Buffer.from(""));
    await vi.waitUntil(() => wordsOf(second.getMessages()).includes("z"), { timeout: 30_000 });
    await vi.waitUntil(() => wordsOf(first.getMessages()).includes("z"), { timeout: 30_000 });
    expect(partsOf(second.getMessages())).toEqual(partsOf(first.getMessages()));
    first.dispose();
    second.dispose();
  });

  it("shows a reopened thread as it was live, page by page (TS-38)", async () => {
    const live = new ChatClient({ connection: fetchServerSentEvents(url), threadId: "chat-again" });
    const steps = [
      [
        { think: "hm" },
        { say: "a" },
        { shell: "echo hi" },
        { say: "b" },
        { think: "so" },
        { shell: "echo bad; false" },
      ],
      [{ shell: "echo '{\"x\":1}'" }, { parallel: [{ shell: "echo 1" }, { shell: "echo 2" }] }, { say: "c" }],
      [{ subagent: { name: "r", steps: [{ say: "inner" }, { shell: "echo sub" }] } }, { say: "d" }],
    ];
    for (const each of steps) await live.sendMessage(script(...each));
    const painted = live.getMessages().map(withoutTime);
    const again = new ChatClient({
      connection: fetchServerSentEvents(url),
      threadId: "chat-again",
      persistence: true,
      history: { pageSize: 3 },
    });
    again.attach();
    await vi.waitUntil(() => again.getMessages().length > 0, { timeout: 20_000 });
    expect(again.getMessages()).toHaveLength(3);
    while (again.getHasOlderMessages()) await again.loadOlderMessages();
    expect(again.getMessages().map(withoutTime)).toEqual(painted);
    expect(again.getMessages().every(({ createdAt }) => createdAt instanceof Date)).toBe(true);
    live.dispose();
    again.dispose();
  });

  it("ends its run on stop with cancelOnDisconnect (TS-39)", async () => {
    const connection = fetchServerSentEvents(`${url}?cancelOnDisconnect=1`);
    const client = new ChatClient({ connection, threadId: "chat-stop" });
    const sent = client.sendMessage(script({ shell: "sleep 61" }));
    await vi.waitUntil(() => bench.test.log.find("chat-stop"), { timeout: 30_000 });
    await waitFor(bench.test.log, "chat-stop", "item.started", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    client.stop();
    await sent;
    const { sequence } = await waitFor(bench.test.log, "chat-stop", "turn.ended");
    const result = await waitFor(bench.test.log, "chat-stop", "item.completed", {
      where: ({ data }) => data.item.kind === "tool_result",
    });
    expect(result.sequence).toBeLessThan(sequence);
    await waitFor(bench.test.log, "chat-stop", "process.ended");
    client.dispose();
  });
});

async function answer(client: ChatClient, payload: unknown): Promise<void> {
  const [interrupt] = client.getInterrupts();
  expect(interrupt).toMatchObject({ kind: "generic", canResolve: true });
  if (interrupt?.kind !== "generic") throw new Error("cannot be answered");
  interrupt.resolveInterrupt(payload);
}
