import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import {
  chat,
  chatParamsFromRequestBody,
  resumeServerSentEventsResponse,
  toServerSentEventsResponse,
} from "@tanstack/ai";
import { ChatClient, fetchServerSentEvents, type UIMessage } from "@tanstack/ai-client";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { sluiceStream, sluiceText } from "../../src/tanstack/index.ts";
import { script, waitFor } from "../support/engine.ts";
import { type AgUiBench, openAgUi } from "../http/ag-ui/ag-ui-bench.ts";

let bench: AgUiBench;
let server: Server;
let url: string;

/** An application's own server, as TanStack's pages write it. */
beforeAll(async () => {
  bench = await openAgUi();
  const place = { baseUrl: bench.url, agent: "scripted" };
  const answer = async (request: Request): Promise<Response> => {
    const adapter = sluiceStream(place, request);
    if (request.method === "GET") return resumeServerSentEventsResponse({ adapter });
    const params = await chatParamsFromRequestBody(await request.json());
    const { messages, threadId, runId, resume } = params;
    const stream = chat({
      adapter: sluiceText(place),
      messages,
      threadId,
      runId,
      modelOptions: resume ? { resume } : {},
    });
    return toServerSentEventsResponse(stream, { durability: { adapter } });
  };
  server = createServer((incoming, outgoing) => {
    const body = incoming.method === "POST" ? (Readable.toWeb(incoming) as ReadableStream) : null;
    const init = {
      method: incoming.method ?? "GET",
      headers: incoming.headers as Record<string, string>,
      body,
      duplex: "half",
    };
    void answer(new Request(`http://x${incoming.url}`, init as RequestInit)).then((response) => {
      outgoing.writeHead(response.status, Object.fromEntries(response.headers));
      if (response.body) Readable.fromWeb(response.body as never).pipe(outgoing);
      else outgoing.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/chat`;
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await bench.close();
});

const partsOf = (messages: readonly UIMessage[]): string[][] =>
  messages.map(({ role, parts }) => [role as string].concat(parts.map(({ type }) => type)));

describe("an application's own TanStack server", () => {
  it("serves its ChatClient (TS-32)", async () => {
    const custom: string[] = [];
    const client = new ChatClient({
      connection: fetchServerSentEvents(url),
      threadId: "s1",
      onCustomEvent: (name) => void custom.push(name),
    });
    await client.sendMessage(script({ think: "hm" }, { say: "a" }, { shell: "echo hi" }));
    expect(client.getStatus()).toBe("ready");
    expect(partsOf(client.getMessages())).toEqual([
      ["user", "text"],
      ["assistant", "thinking", "text", "tool-call", "tool-result"],
    ]);
    expect(client.getMessages()[1]?.parts[2]).toMatchObject({ state: "complete", output: "hi\n" });
    // The first chunk is the engine's own.
    expect(custom).toEqual(["run.accepted", "scripted.session-id"]);
    client.dispose();
  });

  it("replays a run from our log to a returning client", async () => {
    const body = {
      threadId: "s2",
      runId: "s2-run",
      messages: [{ id: "u", role: "user", content: script({ say: "a b c" }, { shell: "echo hi" }) }],
      tools: [],
      context: [],
      state: {},
      forwardedProps: {},
    };
    const headers = { "content-type": "application/json", "x-run-id": "s2-run" };
    const first = await (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).text();
    const ids = [...first.matchAll(/^id: ?(.*)$/gm)].map(([, id]) => id ?? "");
    expect(new Set(ids).size).toBe(ids.length);
    const joined = await (await fetch(`${url}?offset=-1&runId=s2-run`)).text();
    expect(types(joined)).toEqual(types(first));
    const middle = 4;
    const rest = await (
      await fetch(url, {
        method: "POST",
        headers: { ...headers, "last-event-id": ids[middle] ?? "" },
        body: JSON.stringify(body),
      })
    ).text();
    expect(types(rest)).toEqual(types(first).slice(middle));
    const stored = await sluiceStream(
      { baseUrl: bench.url, agent: "scripted" },
      { runId: "s2-run" },
    ).snapshot();
    expect(stored.map(({ chunk }) => chunk.type)).toEqual(types(first));
    expect(
      await sluiceStream({ baseUrl: bench.url, agent: "scripted" }, { runId: "nobody" }).snapshot(),
    ).toEqual([]);
  });

  it("lets its ChatClient answer the agent's requests", async () => {
    const client = new ChatClient({ connection: fetchServerSentEvents(url), threadId: "s3" });
    await client.sendMessage(script({ ask: { shell: "echo allowed" } }, { say: "bye" }));
    const [interrupt] = client.getInterrupts();
    expect(interrupt).toMatchObject({ kind: "generic", canResolve: true });
    if (interrupt?.kind === "generic") interrupt.resolveInterrupt({ approved: true });
    await waitFor(bench.test.log, "s3", "turn.ended");
    await vi.waitUntil(() => JSON.stringify(client.getMessages().slice(1)).includes("bye"), {
      timeout: 30_000,
    });
    client.dispose();
  });
});

function types(text: string): string[] {
  return (
    [...text.matchAll(/^data: ?(.*)$/gm)]
      .map(([, data]) => JSON.parse(data ?? "") as { type: string; name?: string })
      // The engine's own chunk before the run; the log does not have it.
      .filter(({ name }) => name !== "run.accepted")
      .map(({ type }) => type)
  );
}
