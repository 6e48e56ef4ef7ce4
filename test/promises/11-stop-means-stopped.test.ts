import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processesWith, script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("promise 11: stop means stopped", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.close());

  const running = async (id: string, ...steps: unknown[]): Promise<string> => {
    await server.client.sessions.create(id, { agent: "scripted" });
    await server.client.sendMessage(id, script(...steps));
    const frames = await readFrames(server, id, {
      after: 0,
      until: ({ data }) => data.includes('"item.delta"'),
    });
    const boot = frames.map(({ data }) => JSON.parse(data)).find((event) => event.type === "sandbox.boot");
    return (boot as { data: { sandbox_id: string } }).data.sandbox_id;
  };

  it("interrupt ends the turn in place, and the command with it", async () => {
    const sandbox = await running("a", { shell: "echo on; sleep 1234" });
    expect((await server.fetch("/v1/sessions/a/interrupt", { method: "POST" })).status).toBe(204);
    const { status } = await server.client.sessions.get("a");
    expect(status).toBe("idle");
    const commands = await Promise.all(
      (await processesWith(sandbox)).map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
    );
    expect(commands.filter((command) => command.includes("1234"))).toEqual([]);
    expect(commands.join("\n"), "the agent itself stays").toContain("scripted.cjs");
    await server.client.sendMessage("a", script({ say: "and on" }));
    await readFrames(server, "a", {
      after: 0,
      until: ({ data }) => data.includes("and on") && data.includes('"item.completed"'),
    });
  });

  it("terminate resolves when the whole tree is dead", async () => {
    const sandbox = await running("b", {
      shell: "setsid sh -c 'sleep 1234' & (nohup sleep 1234 &) ; echo on; sleep 1234",
    });
    expect((await server.fetch("/v1/sessions/b/terminate", { method: "POST" })).status).toBe(204);
    expect(await processesWith(sandbox)).toEqual([]);
    const frames = await readFrames(server, "b", { after: 0 });
    expect(JSON.parse(frames.at(-1)?.data ?? "{}")).toMatchObject({
      type: "session.ended",
      data: { reason: "terminated" },
    });
    const message = await server.fetch("/v1/sessions/b/messages", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ message: "more" }),
    });
    expect(message.status).toBe(409);
  });

  it("no orphan survives a restart: the next server can still stop it", async () => {
    const sandbox = await running("c", { shell: "setsid sleep 1234 & echo on; sleep 1234" });
    await server.kill();
    await server.start();
    await server.client.terminate("c");
    expect(await processesWith(sandbox)).toEqual([]);
  });

  it("DELETE of a live session resolves, and leaves no process", async () => {
    const sandbox = await running("d", { shell: "echo on; sleep 1234" });
    expect((await server.fetch("/v1/sessions/d", { method: "DELETE" })).status).toBe(204);
    expect(await processesWith(sandbox)).toEqual([]);
    expect((await server.fetch("/v1/sessions/d")).status).toBe(404);
  });
});
