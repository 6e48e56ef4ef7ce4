import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { startServer } from "../support/server.ts";

const FILES = 400;

it("a server that is killed while it forks leaves nothing of the copy, or all of it", async () => {
  const server = await startServer({ args: ["--sandbox", "local"] });
  const exists = async (id: string): Promise<boolean> => (await server.fetch(`/v1/sessions/${id}`)).ok;
  const post = (path: string, body: unknown): Promise<Response> =>
    server.fetch(path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    });
  try {
    expect((await post("/v1/sessions/one", { agent: "scripted" })).ok).toBe(true);
    const { client } = server;
    const text = `#script ${JSON.stringify([{ shell: `for i in $(seq ${FILES}); do head -c 100000 /dev/urandom > f$i; done` }])}`;
    await client.sendMessage("one", text);
    for await (const event of client.subscribe("one", { extensions: true }))
      if (event.type === "turn.ended") break;

    for (let round = 0; round < 2; round += 1) {
      const id = `copy-${round}`;
      const forked = post(`/v1/sessions/${id}`, { agent: "scripted", fork: { session: "one" } }).catch(
        () => undefined,
      );
      while (!(await exists(id))) await sleep(5);
      await server.kill();
      await forked;
      await server.start();
      if (!(await exists(id))) continue;
      const { sessions } = await client.sessions.list();
      expect(sessions.map(({ sessionId }) => sessionId)).toContain(id);
      const count = `#script ${JSON.stringify([{ shell: "ls f* | wc -l" }])}`;
      const { turnId } = await client.sendMessage(id, count);
      let said = "";
      for await (const event of client.subscribe(id, { extensions: true })) {
        if (event.type === "item.delta") said += event.data.delta;
        if (event.type === "turn.ended" && event.data.turn_id === turnId) break;
      }
      expect(said).toContain(String(FILES));
    }
    expect(await readdir(join(server.data, "forks"))).toEqual([]);
  } finally {
    await server.close();
  }
}, 120_000);
