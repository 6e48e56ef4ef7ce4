import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionFrame, SluiceEvent } from "../../../src/contract/index.ts";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";

describe("a server that is killed", () => {
  let server: TestServer;
  beforeAll(async () => void (server = await startServer({ args: ["--sandbox", "local"] })));
  afterAll(() => server.close());

  const events = (id: string): Promise<SluiceEvent[]> => server.client.getEvents(id, { extensions: true });
  const ask = async (id: string): Promise<string> => {
    await server.client.sessions.create(id, { agent: "scripted" });
    await server.client.sendMessage(id, script({ ask: { shell: "true" } }));
    return until(async () => (await server.client.sessions.get(id)).pendingActions[0]?.id);
  };

  it("keeps changes of the queue: exactly one turn for each input that was not withdrawn", async () => {
    const permission = await ask("queue");
    for (const message of ["a", "b", "c", "d"]) await server.client.sendMessage("queue", message);
    const { inputs } = await server.client.inputs.list("queue");
    const [a, b, c, d] = inputs.map(({ inputId }) => inputId) as [string, string, string, string];
    await server.client.inputs.replace("queue", b, "B");
    const { revision } = await server.client.inputs.withdraw("queue", c);
    const ordered = await server.client.inputs.order("queue", [d, b, a], { revision });
    await server.kill();
    await server.start();
    expect(await server.client.inputs.list("queue")).toEqual(ordered);
    await server.client.replyPermission("queue", permission, { reply: "once" });
    const log = await until(async () => {
      const log = await events("queue");
      return log.filter(({ type }) => type === "turn.ended").length === 4 ? log : undefined;
    });
    const texts = log.flatMap((event) =>
      event.type === "item.completed" && event.data.item.role === "user" ? event.data.item.content : [],
    );
    expect(texts.slice(1)).toEqual(["d", "B", "a"].map((text) => ({ type: "text", text })));
    const outline = await server.client.sessions.outline("queue");
    expect(outline.turns.map(({ prompt }) => prompt).slice(1)).toEqual(["d", "B", "a"]);
  });

  it("gives its readers the right list again", async () => {
    await server.client.sessions.create("stays", { agent: "scripted" });
    await server.client.sessions.create("goes", { agent: "scripted" });
    const stop = new AbortController();
    let list = new Map<string, string>();
    let fresh = new Map<string, string>();
    let connections = 0;
    const reading = (async () => {
      const onCut = (): void => void (fresh = new Map());
      for await (const frame of server.client.sessions.watch({ signal: stop.signal, onCut })) {
        take(frame, fresh);
        if (frame.type !== "ready") continue;
        connections += 1;
        list = fresh;
      }
    })();
    await until(async () => (connections === 1 ? true : undefined));
    expect(list.get("goes")).toBe("idle");
    await server.kill();
    await server.start();
    await server.client.sessions.delete("goes");
    await ask("came");
    await until(async () => (list.get("came") === "waiting" && connections > 1 ? true : undefined));
    const { sessions } = await server.client.sessions.list();
    expect(Object.fromEntries(list)).toEqual(
      Object.fromEntries(sessions.map(({ sessionId, status }) => [sessionId, status])),
    );
    stop.abort();
    await reading;
  });

  it("has the outline and every moment of a turn that it was killed in", async () => {
    await server.client.sessions.create("cut", { agent: "scripted" });
    await server.client.sendMessage("cut", script({ say: "one" }));
    await until(async () => ((await server.client.sessions.get("cut")).status === "idle" ? true : undefined));
    await server.client.sendMessage("cut", script({ flood: { events: 3000, bytes: 20 } }, { sleep: 400 }));
    await until(async () => ((await server.client.sessions.get("cut")).eventCount > 500 ? true : undefined));
    await server.kill();
    await server.start();
    const log = await until(async () => {
      const log = await events("cut");
      return log.filter(({ type }) => type === "turn.ended").length === 2 ? log : undefined;
    });
    const { turns } = await server.client.sessions.outline("cut");
    const started = log.filter(({ type }) => type === "turn.started").map(({ sequence }) => sequence);
    expect(turns.map(({ first }) => first)).toEqual(started);
    const middle = (started[1] ?? 0) + 100;
    expect(await server.client.sessions.at("cut", middle)).toMatchObject({ status: "running", turns: 2 });
  });
});

function take({ type, data }: SessionFrame, list: Map<string, string>): void {
  if (type === "session") list.set(data.sessionId, data.status);
  if (type === "removed") list.delete(data.sessionId);
}

async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look().catch(() => undefined);
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
