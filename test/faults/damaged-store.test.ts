import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "libsql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { script } from "../support/engine.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** Bytes of the database that the disk has changed silently. */
describe("a session whose rows are damaged", () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await startServer({ args: ["--sandbox", "local"] });
  });
  afterAll(() => server.close());

  const damage = async (text: string, instead: string): Promise<void> => {
    expect(await server.stop()).toBe(0);
    const path = join(server.data, "log.db");
    const bytes = readFileSync(path);
    let count = 0;
    for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1), count++)
      bytes.write(instead, at);
    expect([count, instead.length]).toEqual([expect.any(Number), text.length]);
    expect(count).toBeGreaterThan(0);
    writeFileSync(path, bytes);
    await server.start();
  };
  const turn = async (session: string, ...words: string[]): Promise<void> => {
    const { turnId } = await server.client.sendMessage(
      session,
      script(...words.map((say) => ({ say, chunks: 1 }))),
    );
    await expect
      .poll(async () => (await server.client.sessions.get(session)).status, { timeout: 30_000 })
      .toBe("idle");
    expect(turnId).toBeTruthy();
  };
  const pageOf = async (session: string): Promise<SluiceEvent[]> => {
    const answer = await server.fetch(`/v1/sessions/${session}/events?limit=1000&extensions=true`);
    expect(answer.status).toBe(200);
    return ((await answer.json()) as { events: SluiceEvent[] }).events;
  };

  it("loses one event where its text is damaged, and no other", async () => {
    for (const id of ["bent", "sound"]) await server.client.sessions.create(id, { agent: "scripted" });
    await turn("bent", "before", "inmidst", "behind");
    await turn("sound", "all well");
    const before = await pageOf("bent");
    await damage(delta("inmidst"), delta('in"idst'));

    const whole = await pageOf("bent");
    const after = whole.slice(0, before.length);
    expect(after.map(({ sequence }) => sequence)).toEqual(before.map(({ sequence }) => sequence));
    const damaged = after.filter((event, index) => event.type !== before[index]?.type);
    expect(damaged.map(({ type }) => type)).toEqual(["agent.unparsed"]);
    expect(after.filter((event) => !damaged.includes(event))).toEqual(
      before.filter(({ sequence }) => sequence !== damaged[0]?.sequence),
    );
    const streamed: SluiceEvent[] = [];
    for await (const event of server.client.subscribe("bent", { extensions: true })) {
      streamed.push(event);
      if (event.sequence === whole.length) break;
    }
    expect(streamed).toEqual(whole);
    for (const path of ["/ag-ui/threads/bent/messages", "/ndjson/runs/bent"]) {
      const answer = await server.fetch(path);
      expect(answer.status, path).toBeLessThan(500);
      await answer.body?.cancel();
    }
    await turn("bent", "and on");
    await turn("sound", "and on");
  });

  it("starts no agent where its spec is damaged, and can be read, ended and deleted", async () => {
    const spec = { agent: "scripted", ttl: 86_400, title: "to be damaged" };
    for (const id of ["broken", "removed"]) await server.client.sessions.create(id, spec);
    await turn("broken", "said before");
    await damage('"title":"to be damaged"', '"title":"to be "amaged"');

    const { sessions } = await server.client.sessions.list({ limit: 100 });
    expect(sessions.map(({ sessionId }) => sessionId)).toEqual(
      expect.arrayContaining(["broken", "removed", "sound"]),
    );
    expect((await pageOf("broken")).some(({ type }) => type === "turn.ended")).toBe(true);
    const sent = await server.fetch("/v1/sessions/broken/messages", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ message: "on" }),
    });
    expect(sent.status).toBe(500);
    expect(await sent.text()).toContain("damaged in the store");
    await turn("sound", "still");
    await server.client.terminate("broken");
    await server.client.sessions.delete("broken");
    await server.client.sessions.delete("removed");
    const left = await server.client.sessions.list({ limit: 100 });
    expect(left.sessions.map(({ sessionId }) => sessionId).toSorted()).toEqual(["bent", "sound"]);
  });

  it("goes on where a number of its place in the log is none", async () => {
    const columns = ["head", "floor", "epoch", "active", "updated_at"];
    for (const id of columns) {
      await server.client.sessions.create(id, { agent: "scripted" });
      await turn(id, "said before");
    }
    const before = await Promise.all(columns.map(pageOf));
    expect(await server.stop()).toBe(0);
    const database = new Database(join(server.data, "log.db"));
    for (const id of columns) {
      const place = "session = (SELECT ordinal FROM sessions WHERE id = ?)";
      database.prepare(`UPDATE places SET ${id} = '}{' WHERE ${place}`).run(id);
    }
    database.close();
    await server.start();

    for (const [index, id] of columns.entries()) {
      const events = await pageOf(id);
      expect(events.slice(0, before[index]?.length), id).toEqual(before[index]);
      expect((await server.client.sessions.get(id)).updatedAt, id).toEqual(expect.any(Number));
      await turn(id, "and on");
      const after = await pageOf(id);
      expect(after.map(({ sequence }) => sequence)).toEqual(after.map((_, at) => at + 1));
      await server.client.terminate(id);
      await server.client.sessions.delete(id);
    }
  }, 60_000);
});

function delta(text: string): string {
  return `"delta":"${text}"`;
}
