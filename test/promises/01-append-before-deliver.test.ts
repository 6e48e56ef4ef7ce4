import { afterAll, beforeAll, expect, it } from "vitest";
import { createSqliteLog, type EventLog } from "../../src/log/index.ts";
import { script } from "../support/engine.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
let log: EventLog;
beforeAll(async () => {
  server = await startServer();
  log = await createSqliteLog({ folder: server.data });
});
afterAll(async () => {
  await log.close();
  await server.close();
});

it("promise 1: every event that a client sees is committed already", async () => {
  await server.client.sessions.create("s", { agent: "scripted" });
  await server.client.sendMessage("s", script({ flood: { events: 3000, bytes: 40 } }));
  let seen = 0;
  for await (const event of server.client.subscribe("s", { extensions: true })) {
    seen = event.sequence;
    // Another process reads the database: a frame on the socket must be in the file.
    if (seen % 50 === 0) {
      const stored = await log.read("s", { after: seen - 1, limit: 1 });
      expect(JSON.parse(stored[0]?.body ?? "null")).toEqual(event);
    }
    if (event.type === "turn.ended") break;
  }
  expect(seen).toBeGreaterThan(3000);
});

it("promise 1: the info of a session is committed too, so that its event count is a cursor", async () => {
  const { client } = server;
  await client.sessions.create("counted", { agent: "scripted" });
  const steps = Array.from({ length: 40 }, (_, index) => [
    { write: { path: "a.txt", content: `${index} ${"x".repeat(200)}` } },
    { flood: { events: 300, bytes: 100 } },
  ]);
  await client.sendMessage("counted", script(...steps.flat()));
  for (;;) {
    const { eventCount, status } = await client.sessions.get("counted");
    // A cursor ahead of the log would be refused with 410.
    await client.events.page("counted", { after: eventCount, limit: 1 });
    if (status === "idle" && eventCount > 12_000) break;
  }
});
