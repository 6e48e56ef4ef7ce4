import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

const WEATHER = { name: "weather", description: "The weather of a city", inputSchema: { type: "object" } };

/** Isolated where this host can do that: there the program reconnects through the egress proxy. */
describe("a call through kill -9 of the server", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
    await server.client.sessions.create("s", { agent: "scripted", tools: { custom: [WEATHER] } });
  });
  afterAll(() => server.close());

  const read = async (after: number, until: string): Promise<SluiceEvent[]> => {
    const frames = await readFrames(server, "s", { after, until: ({ data }) => data.includes(until) });
    return frames.map(({ data }) => JSON.parse(data) as SluiceEvent);
  };
  const answer = (id: string, output: string): Promise<Response> =>
    server.fetch(`/v1/sessions/s/tools/${id}/reply`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ output, events: [{ name: "seen", value: output }] }),
    });

  it("is requested once, answered once, and reaches the agent once", async () => {
    for (let round = 0; round < 4; round += 1) {
      const head = (await server.client.sessions.get("s")).eventCount;
      await server.client.sendMessage("s", script(call(`city ${round}`), { say: "after" }));
      await read(head, '"turn.waiting"');
      // Before the answer, after it, and both.
      if (round !== 1) await server.kill();
      if (round !== 1) await server.start();
      const [pending] = (await server.client.sessions.get("s")).pendingActions;
      expect(pending).toMatchObject({ kind: "tool", prompt: "weather", input: { city: `city ${round}` } });
      expect((await answer(pending?.id ?? "", `sunny ${round}`)).status).toBe(204);
      if (round > 0) await server.kill();
      if (round > 0) await server.start();
      const events = await read(head, '"type":"turn.ended"');
      const of = (type: string): SluiceEvent[] => events.filter((event) => event.type === type);
      expect(of("tool.requested")).toHaveLength(1);
      expect(of("tool.resolved")).toHaveLength(1);
      expect(of("custom").map((event) => event.data)).toEqual([{ name: "seen", value: `sunny ${round}` }]);
      const results = JSON.stringify(of("item.completed")).split(`"output":"sunny ${round}"`).length - 1;
      expect(results).toBe(1);
      expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
    }
  });

  it("is cancelled where the turn was interrupted, also after it", async () => {
    const head = (await server.client.sessions.get("s")).eventCount;
    await server.client.sendMessage("s", script(call("Bern")));
    await read(head, '"turn.waiting"');
    await server.kill();
    await server.start();
    await server.client.interrupt("s");
    const events = await read(head, '"type":"turn.ended"');
    expect(events.filter((event) => event.type === "tool.resolved").map((event) => event.data)).toMatchObject(
      [{ status: "cancelled" }],
    );
    expect(events.at(-1)?.data).toMatchObject({ status: "interrupted" });
  });
});

function call(city: string): unknown {
  return { mcp: { server: "sluice", tool: "weather", input: { city } } };
}
