import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { expectTellable } from "../../dialects/ag-ui/oracle.ts";
import { toFrames } from "../sseReader.ts";
import { input, toTold } from "./agUiBench.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  await server.close();
});

describe("a server that is killed in the middle of a run (AG-32)", () => {
  it("goes on with it: what was heard stays what it was, and the end comes", async () => {
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
    await vi.waitUntil(async () => (await server.client.sessions.get("killed")).status === "running");
    await server.client.fs.write("killed", "/workspace/go", "");
    const rest = toFrames(await again.text());
    const told = toTold([...before, ...rest].map(({ data }) => `data: ${data}\n`).join(""));
    await expectTellable(told);
    expect(told.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "success" } });
    // Only the run is known to who joins; the restarted server finds its thread.
    const joined = await server.fetch(`/ag-ui/scripted?offset=-1&runId=${String(body["runId"])}`);
    expect(toFrames(await joined.text())).toEqual([...before, ...rest]);
  });
});
