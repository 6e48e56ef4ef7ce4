import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { script } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

it(
  "promise 4: kill -9 at random moments, 20 times over: nothing lost, nothing twice, one terminal each",
  { timeout: 240_000 },
  async () => {
    const lines = 4000;
    for (let round = 0; round < 20; round++) {
      const session = `round-${round}`;
      await server.client.sessions.create(session, { agent: "scripted" });
      await server.client.sendMessage(
        session,
        script(
          { say: "starting" },
          { shell: `i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.005; done` },
          { flood: { events: lines, bytes: 30 } },
          { write: { path: "a.txt", content: "x" } },
          { say: "finished" },
        ),
      );
      // The moment is random on purpose: any instruction may be the last.
      await sleep(Math.random() * 600);
      await server.kill();
      await server.start();
      const events: SluiceEvent[] = [];
      for await (const event of server.client.subscribe(session, { extensions: true })) {
        events.push(event);
        if (event.type === "turn.ended") break;
      }
      expectLawful(events);
      expect(events.at(-1)?.data).toMatchObject({ status: "completed", stop_reason: "end_turn" });
      expectWhole(events, lines);
      await server.client.sessions.delete(session);
    }
  },
);

/** Every native delta is there once: the deltas of each item add up to its final text. */
function expectWhole(events: readonly SluiceEvent[], lines: number): void {
  const deltas = new Map<string, string[]>();
  for (const event of events) {
    if (event.type !== "item.delta") continue;
    deltas.set(event.data.item_id, [...(deltas.get(event.data.item_id) ?? []), event.data.delta]);
  }
  const flood = [...deltas.values()].filter((chunks) => chunks.length === lines);
  expect(flood).toHaveLength(1);
  for (const event of events) {
    if (event.type !== "item.completed") continue;
    const said = deltas.get(event.data.item.item_id)?.join("");
    if (said === undefined) continue;
    const [part] = event.data.item.content;
    expect(said).toBe(
      part?.type === "tool_result" ? part.output : part && "text" in part ? part.text : undefined,
    );
  }
}
