import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventData, EventType } from "../../src/contract/index.ts";
import { defaultProviders } from "../../src/sandbox/choose.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** A server can be killed after it has frozen a sandbox and before that is in the log: for a pause, a checkpoint, a full disk. */
describe.each(["local", "bwrap"])("a %s sandbox that was left frozen", (provider) => {
  let server: TestServer;
  beforeEach(async () => {
    server = await startServer({ args: ["--sandbox", provider] });
    await server.client.sessions.create("s", { agent: "scripted" });
  });
  afterEach(() => server.close());

  it("goes on with its turn when a server finds it", async () => {
    const { turnId } = await server.client.sendMessage(
      "s",
      '#script [{"say":"one"},{"shell":"sleep 1; echo done"}]',
    );
    await until("item.completed", ({ item }) => item.role === "assistant");
    await killWhileFreezing();
    await until("turn.ended", ({ turn_id }) => turn_id === turnId);
  });

  it("starts an agent where none ran", async () => {
    await server.client.runCommand("s", { command: "true" });
    await until("command.ended");
    await killWhileFreezing();
    const { turnId } = await server.client.sendMessage("s", '#script [{"say":"one"}]');
    await until("turn.ended", ({ turn_id }) => turn_id === turnId);
  });

  it("stays frozen where the log says that it is paused", async () => {
    await server.client.sendMessage("s", '#script [{"sleep":1},{"say":"too early"}]');
    await until("turn.started");
    await server.client.pause("s");
    await server.kill();
    await server.start();
    expect((await server.client.sessions.get("s")).paused).toBe(true);
    await server.client.resume("s");
    await until("turn.ended");
  });

  async function until<T extends EventType>(
    type: T,
    where: (data: EventData<T>) => boolean = () => true,
  ): Promise<void> {
    for await (const event of server.client.subscribe("s", { extensions: true }))
      if (event.type === type && where(event.data as EventData<T>)) return;
  }

  async function killWhileFreezing(): Promise<void> {
    const events = await server.client.getEvents("s", { extensions: true });
    const boot = events.find((event) => event.type === "sandbox.boot");
    await server.kill();
    const root = join(server.data, "sandboxes");
    const found = defaultProviders({ root, hide: [server.data] }).find(({ id }) => id === provider);
    const sandbox = await found?.connect(boot?.data.sandbox_id ?? "");
    await sandbox?.pause?.();
    await sandbox?.release?.();
    await server.start();
  }
});
