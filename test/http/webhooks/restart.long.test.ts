import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { openReceiver, type Receiver } from "./webhook-receiver.ts";

const run = promisify(execFile);
const BIN = resolve(import.meta.dirname, "../../../bin/sluice");

describe("webhooks of a real server", () => {
  let receiver: Receiver;
  let server: TestServer;
  beforeAll(async () => {
    receiver = await openReceiver();
    server = await startServer();
  }, 60_000);
  afterAll(async () => {
    await server.close();
    await receiver.close();
  });

  const sluice = async (...args: string[]): Promise<string> => {
    const env = { ...process.env, SLUICE_TOKEN: server.token };
    return (await run(BIN, [...args, "--server", server.url], { env })).stdout.trim();
  };

  it("lose nothing to kill -9, and repeat under the same id", async () => {
    const { client } = server;
    const { id, secret } = await client.webhooks.create({ url: receiver.url, types: ["turn.ended"] });
    const names = Array.from({ length: 4 }, (_, index) => `k${index}`);
    for (const name of names) await client.sessions.create(name, { agent: "scripted" });
    receiver.answer(503);
    const before = names.slice(0, 2);
    for (const name of before)
      for await (const event of client.messageStream(name, script({ say: "unheard" }))) void event;
    await receiver.until(({ status }) => status === 503);
    // These turns end while no server runs, or after its return.
    for (const name of names.slice(2))
      await client.sendMessage(name, script({ sleep: 500 }, { say: "late" }));
    await server.kill();
    const [refused] = receiver.received;
    receiver.answer(200);
    await server.start();
    for (const name of names) await receiver.until((one) => one.session === name && one.status === 200);
    const taken = receiver.taken();
    expect(new Set(taken.map((one) => one.id)).size).toBe(names.length);
    expect(taken.some((one) => one.id === refused?.id && one.body === refused.body)).toBe(true);
    for (const { body, headers } of taken) new Webhook(secret).verify(body, headers);
    await expect.poll(async () => (await client.webhooks.get(id)).failures).toBe(0);
    expect(server.stderr()).not.toContain(secret.slice("whsec_".length));
    await client.webhooks.delete(id);
  }, 60_000);

  it("are made, listed, tested and removed by the command line", async () => {
    const made = JSON.parse(
      await sluice(
        "webhook",
        "create",
        receiver.url,
        "--type",
        "ask.opened",
        "--metadata",
        "team=red",
        "--json",
      ),
    ) as { id: string; secret: string };
    expect(made).toMatchObject({ types: ["ask.opened"], metadata: { team: "red" } });
    const listed = await sluice("webhook", "list");
    expect(listed).toContain(`${made.id}  `);
    expect(listed).toContain("ask.opened · team=red");
    expect(listed).not.toContain(made.secret);
    const before = receiver.taken().length;
    await sluice("webhook", "test", made.id);
    expect(receiver.taken().length).toBe(before + 1);
    receiver.answer(500);
    await expect(sluice("webhook", "test", made.id)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining("HTTP 500") as string,
    });
    receiver.answer(200);
    await sluice("webhook", "rm", made.id);
    expect(await sluice("webhook", "list")).toBe("");
  }, 60_000);
});
