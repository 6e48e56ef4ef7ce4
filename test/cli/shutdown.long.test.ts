import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { startServer, type TestServer } from "../support/server.ts";
import { script } from "../support/engine.ts";

let server: TestServer;
/** Accepts every request and responds to none. */
const silent = createServer(() => {});
beforeAll(async () => {
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  server = await startServer({ args: ["--webhook", `http://127.0.0.1:${port}/hook`] });
});
afterAll(async () => {
  await server.close();
  silent.closeAllConnections();
  silent.close();
});

it("SIGTERM ends a server with open streams, turns, commands, boots and uploads without a loss", async () => {
  const { client } = server;
  const abort = new AbortController();
  const { signal } = abort;
  for (const id of ["works", "waits", "runs"]) await client.sessions.create(id, { agent: "scripted" });
  await client.sendMessage("works", script({ say: "begun" }, { shell: "sleep 6" }, { say: "done" }));
  await client.sendMessage("waits", script({ ask: { shell: "make deploy" } }, { say: "answered" }));
  await client.runCommand("runs", { command: "sleep 60" });
  for await (const { type } of client.subscribe("waits", { signal }))
    if (type === "permission.requested") break;
  const streams = ["works", "waits", "runs"].map((id) =>
    server.fetch(`/v1/sessions/${id}/events/sse`, { signal }).then(
      (response) => response.text().catch(() => {}),
      () => {},
    ),
  );
  const body = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.alloc(1024)) });
  const upload = server
    .fetch("/v1/fs/file?session=works&path=a", { method: "PUT", body, duplex: "half", signal } as RequestInit)
    .catch(() => {});
  const uploads = join(server.data, "uploads");
  await vi.waitUntil(
    () =>
      readdir(uploads).then(
        ({ length }) => length > 0,
        () => false,
      ),
    { timeout: 20_000 },
  );
  const boots = Array.from({ length: 4 }, async (_, index) => {
    await client.sessions.create(`boots-${index}`, { agent: "scripted" });
    await client.sendMessage(`boots-${index}`, script({ say: "hello" }));
  });
  await Promise.allSettled(boots);
  expect(await server.stop()).toBe(0);
  abort.abort();
  await Promise.all([...streams, upload]);
  await server.start();
  for await (const { type } of client.subscribe("works", { extensions: true }))
    if (type === "turn.ended") break;
  const events = await client.getEvents("works", { extensions: true });
  expect(events.filter(({ type }) => type === "turn.ended")).toMatchObject([
    { data: { status: "completed" } },
  ]);
  expect(await client.sessions.get("waits")).toMatchObject({ pendingActions: [{ kind: "permission" }] });
});
