import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("promise 10: open questions are durable", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
    await server.client.sessions.create("s", { agent: "scripted" });
  });
  afterAll(() => server.close());

  it("a permission survives kill -9 and is answerable, once", async () => {
    await server.client.sendMessage("s", script({ ask: { shell: "echo allowed" } }, { say: "went on" }));
    await readFrames(server, "s", { after: 0, until: ({ data }) => data.includes('"turn.waiting"') });
    await server.kill();
    await server.start();
    const [pending] = (await server.client.sessions.get("s")).pendingActions;
    expect(pending).toMatchObject({ kind: "permission", prompt: "shell" });
    const reply = (by: string): Promise<Response> =>
      server.fetch(`/v1/sessions/s/permissions/${pending?.id}/reply`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ reply: by }),
      });
    const answers = await Promise.all([reply("once"), reply("reject")]);
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([204, 409]);
    const conflict = (await answers.find((answer) => answer.status === 409)?.json()) as {
      detail: string;
      resolution: string;
    };
    expect(conflict.resolution).toMatch(/approved|denied/);
    expect(conflict.detail).toContain(conflict.resolution);
    const frames = await readFrames(server, "s", {
      after: 0,
      until: ({ data }) => data.includes('"type":"turn.ended"'),
    });
    expect(frames.at(-1)?.data).toContain('"completed"');
  });

  it("an answer given right before kill -9 still reaches the agent, once", async () => {
    for (let round = 0; round < 5; round++) {
      const head = (await server.client.sessions.get("s")).eventCount;
      await server.client.sendMessage("s", script({ question: { prompt: "Which?", options: ["a", "b"] } }));
      await readFrames(server, "s", { after: head, until: ({ data }) => data.includes('"turn.waiting"') });
      const [pending] = (await server.client.sessions.get("s")).pendingActions;
      await server.client.replyQuestion("s", pending?.id ?? "", [[`answer ${round}`]]);
      await server.kill();
      await server.start();
      const frames = await readFrames(server, "s", {
        after: head,
        until: ({ data }) => data.includes('"type":"turn.ended"'),
      });
      const echoes = frames.filter(
        ({ data }) =>
          data.includes('"item.completed"') &&
          data.includes('"role":"assistant"') &&
          data.includes(`answer ${round}`),
      );
      expect(echoes.length).toBe(1);
    }
  });
});
