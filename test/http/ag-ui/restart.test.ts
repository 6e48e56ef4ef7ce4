import { HttpAgent } from "@ag-ui/client";
import { ChatClient, fetchHttpStream, fetchServerSentEvents } from "@tanstack/ai-client";
import { HttpAgent as HttpAgent0 } from "ag-ui-client-0";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createResumingFetch } from "../../../src/client/index.ts";
import { expectTellable } from "../../dialects/ag-ui/oracle.ts";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { toFrames } from "../sse-reader.ts";
import { input, toTold } from "./ag-ui-bench.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  await server.close();
});

describe("a server that is killed in the middle of a run (AG-32)", () => {
  it("continues the run with the same earlier events and reaches its end", async () => {
    const prompt = script(
      { say: "a b c" },
      { shell: "until [ -e go ]; do sleep 0.05; done" },
      { say: "end" },
    );
    const body = input("killed", prompt);
    const headers = { "content-type": "application/json" };
    const response = await server.fetch("/ag-ui/scripted", {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    let heard = "";
    const decoder = new TextDecoder();
    const reader = response.body?.getReader();
    if (!reader) throw new Error("no body");
    while (!heard.includes("TOOL_CALL_END"))
      heard += decoder.decode((await reader.read()).value, { stream: true });
    await server.kill();
    await reader.cancel().catch(() => {});
    await server.start();
    const before = toFrames(heard.slice(0, heard.lastIndexOf("\n\n") + 2));
    const again = await server.fetch("/ag-ui/scripted", {
      method: "POST",
      headers: { ...headers, "last-event-id": before.at(-1)?.id ?? "", "x-run-id": String(body["runId"]) },
      body: JSON.stringify(body),
    });
    expect(again.status).toBe(200);
    await vi.waitUntil(async () => (await server.client.sessions.get("killed")).status === "running", {
      timeout: 30_000,
    });
    await server.client.fs.write("killed", "/workspace/go", "");
    const rest = toFrames(await again.text());
    const told = toTold([...before, ...rest].map(({ data }) => `data: ${data}\n`).join(""));
    await expectTellable(told);
    expect(told.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "success" } });
    // The reader knows only the run; the restarted server finds its thread.
    const joined = await server.fetch(`/ag-ui/scripted?offset=-1&runId=${String(body["runId"])}`);
    expect(toFrames(await joined.text())).toEqual([...before, ...rest]);
  });

  it("is reconnected to by every client, and each gets every event once", async () => {
    const url = `${server.url}/ag-ui/scripted`;
    const headers = { authorization: `Bearer ${server.token}` };
    // The server is absent during its whole start, however long that takes.
    const reconnect = { maxAttempts: 400, delayMs: 100 };
    const agentOf = (Agent: typeof HttpAgent, threadId: string): Listener => {
      const agent = new Agent({ url, headers, threadId, fetch: createResumingFetch({ tries: 100 }) });
      return {
        threadId,
        send: async (text) => {
          agent.addMessage({ id: "u1", role: "user", content: text });
          await agent.runAgent();
        },
        heard: () => agent.messages.map(({ content }) => content),
        close: () => {},
      };
    };
    const chatOf = (connect: typeof fetchServerSentEvents, threadId: string, accept: string): Listener => {
      const connection = connect(url, { headers: { ...headers, accept }, reconnect });
      const client = new ChatClient({ connection, threadId });
      return {
        threadId,
        send: (text) => client.sendMessage(text).then(() => {}),
        heard: () =>
          client
            .getMessages()
            .flatMap(({ parts }) => parts.flatMap((part) => ("content" in part ? [part.content] : []))),
        close: () => client.dispose(),
      };
    };
    const listeners = [
      agentOf(HttpAgent, "again-1"),
      agentOf(HttpAgent0 as unknown as typeof HttpAgent, "again-0"),
      chatOf(fetchServerSentEvents, "again-sse", "text/event-stream"),
      chatOf(fetchHttpStream, "again-lines", "application/x-ndjson"),
    ];
    const prompt = script(
      { say: "a b c" },
      { shell: "until [ -e go ]; do sleep 0.05; done; echo went" },
      { say: "end" },
    );
    const runs = listeners.map(({ send }) => send(prompt));
    const heard = (words: string) => listeners.every((one) => one.heard().includes(words));
    await vi.waitUntil(() => heard("a b c"), { timeout: 30_000 });
    await server.kill();
    await server.start();
    for (const { threadId } of listeners) await server.client.fs.write(threadId, "/workspace/go", "");
    await Promise.all(runs);
    for (const one of listeners) {
      expect(one.heard(), one.threadId).toEqual([prompt, "a b c", "went\n", "end"]);
      const { events } = await server.client.events.page(one.threadId, {
        extensions: true,
        types: ["turn.started"],
      });
      expect(events).toHaveLength(1);
      one.close();
    }
  });
});

interface Listener {
  readonly threadId: string;
  send(text: string): Promise<void>;
  heard(): unknown[];
  close(): void;
}
