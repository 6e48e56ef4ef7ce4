import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { processesWith, script } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("promise 5: the run outlives everyone", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.close());

  it("goes on when its reader leaves", async () => {
    await server.client.sessions.create("left", { agent: "scripted" });
    await server.client.sendMessage("left", script({ say: "a" }, { sleep: 300 }, { say: "b" }));
    await readFrames(server, "left", { after: 0, cutAfter: 2 });
    const frames = await readFrames(server, "left", {
      after: 0,
      until: ({ data }) => data.includes('"turn.ended"'),
    });
    expect(frames.at(-1)?.data).toContain('"completed"');
  });

  it("goes on when the server is killed, and one subscription sees one unbroken sequence", async () => {
    await server.client.sessions.create("killed", { agent: "scripted" });
    await server.client.sendMessage(
      "killed",
      script({ shell: "for i in $(seq 1 60); do echo $i; sleep 0.02; done" }, { say: "the end" }),
    );
    const events: SluiceEvent[] = [];
    let killed: Promise<void> | undefined;
    for await (const event of server.client.subscribe("killed", { extensions: true })) {
      events.push(event);
      if (event.type === "item.delta" && killed === undefined) {
        killed = (async () => {
          await server.kill();
          const sandbox = events.find((event) => event.type === "sandbox.boot")?.data as {
            sandbox_id: string;
          };
          expect((await processesWith(sandbox.sandbox_id)).length, "the agent still runs").toBeGreaterThan(0);
          await server.start();
        })();
      }
      if (event.type === "turn.ended") break;
    }
    await killed;
    expectLawful(events);
    expect(events.filter((event) => event.type === "process.started")).toHaveLength(1);
  });

  it("SIGTERM drains and exits 0; the next server picks up a longer turn", async () => {
    await server.client.sessions.create("drained", { agent: "scripted" });
    await server.client.sendMessage("drained", script({ sleep: 200 }, { say: "short" }));
    await readFrames(server, "drained", { after: 0, until: ({ data }) => data.includes('"turn.started"') });
    expect(await server.stop()).toBe(0);
    await server.start();
    expect((await server.client.sessions.get("drained")).status).toBe("idle");
    await server.client.sendMessage("drained", script({ ask: { shell: "true" } }, { say: "long" }));
    await readFrames(server, "drained", { after: 0, until: ({ data }) => data.includes('"turn.waiting"') });
    expect(await server.stop()).toBe(0);
    await server.start();
    const { pendingActions } = await server.client.sessions.get("drained");
    await server.client.replyPermission("drained", pendingActions[0]?.id ?? "", { reply: "once" });
    const frames = await readFrames(server, "drained", {
      after: 0,
      until: ({ data }) => data.includes('"long"'),
    });
    expect(frames.length).toBeGreaterThan(0);
  });
});
