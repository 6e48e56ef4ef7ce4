import { createServer, request, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sluice } from "../../src/sdk/index.ts";
import { script } from "../support/engine.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("an instance that joins a session late", () => {
  let server: TestServer;
  let wire: Wire;
  beforeAll(async () => {
    server = await startServer({ args: ["--sandbox", "local"] });
    wire = await openWire(server.url);
  });
  afterAll(async () => {
    wire.server.close();
    await server.close();
  });

  const turn = async (id: string, ...steps: unknown[]): Promise<void> => {
    const types: string[] = [];
    for await (const { type } of server.client.messageStream(id, script(...steps), { extensions: true }))
      types.push(type);
    expect(types).toContain("turn.ended");
  };
  const begin = async (id: string, command: string): Promise<void> => {
    const answer = await server.fetch(`/v1/sessions/${id}/commands`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ command, background: true }),
    });
    expect(answer.ok, await answer.clone().text()).toBe(true);
    await answer.body?.cancel();
  };
  const come = (id: string): Sluice => new Sluice().withServer(wire.url, server.token).withSession(id);

  it("gets the end of a background command from before the last turn", async () => {
    await server.client.sessions.create("late", { agent: "scripted" });
    await begin("late", "until [ -e go ]; do sleep 0.02; done");
    await turn("late", { say: "one" });
    const { eventCount: after } = await server.client.sessions.get("late");
    const sluice = come("late");
    try {
      await sluice.setSession("late");
      expect(sluice.status()).toMatchObject({ sandbox: "running", agent: "running" });
      const reasons: string[] = [];
      const told = (async () => {
        for await (const event of sluice.events({ after }))
          if (event.type === "lifecycle" && reasons.push(event.event.reason) > 0) return;
      })();
      await server.client.fs.write("late", "go", new Uint8Array());
      await told;
      expect(reasons).toEqual(["command_background_complete"]);
    } finally {
      await sluice.close();
    }
  });

  it("knows that a command still runs after the end of a turn", async () => {
    await server.client.sessions.create("both", { agent: "scripted" });
    await begin("both", "until [ -e go ]; do sleep 0.02; done");
    const sluice = come("both");
    try {
      await sluice.setSession("both");
      const states: string[] = [];
      const over = new Promise<void>((resolve) => {
        sluice.on("lifecycle", ({ reason, sandbox, agent }) => {
          states.push(`${reason}: ${sandbox} ${agent}`);
          if (reason === "command_background_complete") resolve();
        });
      });
      const isDone = (count: number): Promise<void> =>
        expect.poll(() => states.length, { timeout: 20_000 }).toBe(count);
      await turn("both", { say: "one" });
      await isDone(2);
      expect(sluice.status()).toMatchObject({ sandbox: "running", agent: "running" });
      await server.client.sendMessage("both", script({ sleep: 60_000 }));
      await isDone(3);
      await server.client.interrupt("both");
      await isDone(4);
      await server.client.fs.write("both", "go", new Uint8Array());
      await over;
      expect(sluice.status()).toMatchObject({ sandbox: "ready", agent: "idle" });
      expect(states).toEqual([
        "run_start: running running",
        "run_complete: running running",
        "run_start: running running",
        "run_interrupted: running running",
        "command_background_complete: ready idle",
      ]);
    } finally {
      await sluice.close();
    }
  });

  it.each([
    ["a refused run", (sluice: Sluice) => sluice.run({ prompt: "x" })],
    ["a refused command", (sluice: Sluice) => sluice.executeCommand("true")],
  ])("follows the run of another instance after %s", async (_name, refused) => {
    const first = new Sluice().withServer(server.url, server.token).withAgent({ type: "scripted" });
    const prompt = script({ shell: "until [ -e go ]; do sleep 0.02; done" });
    await first.run({ prompt, background: true });
    const id = first.getSession() as string;
    const sluice = come(id);
    try {
      const reasons: string[] = [];
      sluice.on("lifecycle", ({ reason }) => reasons.push(reason));
      await expect(refused(sluice)).rejects.toMatchObject({ code: "session_busy" });
      expect(sluice.status().agent).toBe("running");
      // Longer than a connection without a user stays open.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      await server.client.fs.write(id, "go", new Uint8Array());
      await expect.poll(() => reasons, { timeout: 20_000 }).toContain("run_background_complete");
      expect(sluice.status().agent).toBe("idle");
      expect(await sluice.run({ prompt: script({ say: "next" }) })).toMatchObject({ exitCode: 0 });
    } finally {
      await sluice.close();
      await first.close();
    }
  });

  it("does not read earlier turns", async () => {
    await server.client.sessions.create("long", { agent: "scripted" });
    await turn("long", { flood: { events: 20_000, bytes: 100 } });
    await turn("long", { say: "short" });
    const { eventCount } = await server.client.sessions.get("long");
    expect(eventCount).toBeGreaterThan(20_000);
    const before = wire.received();
    const sluice = come("long");
    try {
      await sluice.setSession("long");
      expect(sluice.status()).toMatchObject({ sandbox: "ready", agent: "idle", hasRun: true });
    } finally {
      await sluice.close();
    }
    // Each of these events has more than 400 bytes, and the completed item repeats the whole text.
    expect(wire.received() - before).toBeLessThan(eventCount * 200);
  });
});

interface Wire {
  readonly url: string;
  readonly server: Server;
  /** The count of bytes from the server. */
  readonly received: () => number;
}

/** A real connection to the server with a byte count. */
async function openWire(target: string): Promise<Wire> {
  let bytes = 0;
  const { host, hostname, port } = new URL(target);
  const server = createServer((asked, answer) => {
    const { method, url: path, headers } = asked;
    const sent = request({ hostname, port, method, path, headers: { ...headers, host } }, (given) => {
      answer.writeHead(given.statusCode ?? 502, given.headers);
      given.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        answer.write(chunk);
      });
      given.on("end", () => answer.end());
      given.on("error", () => answer.destroy());
    });
    sent.on("error", () => answer.destroy());
    answer.on("close", () => sent.destroy());
    asked.pipe(sent);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port: own } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${own}`, server, received: () => bytes };
}
