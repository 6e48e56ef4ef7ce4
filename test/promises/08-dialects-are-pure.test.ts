import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("promise 8: dialects are pure", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
    await server.client.sessions.create("s", { agent: "scripted" });
  });
  afterAll(() => server.close());

  it("live frames, replayed frames and frames after a restart are the same bytes", async () => {
    for (const query of ["", "&include_raw=true"]) {
      const { eventCount: after } = await server.client.sessions.get("s");
      const live = readFrames(server, "s", { after, query, until: isEnd });
      await server.client.sendMessage(
        "s",
        script(
          { think: "hm" },
          { shell: "echo 1; echo 2" },
          { say: 'a\u2028b \u0000 "q" 漢' },
          { image: { data: "aGk=", mimeType: "image/png" } },
        ),
      );
      const first = await live;
      expect(first.length).toBeGreaterThan(10);
      expect(await readFrames(server, "s", { after, query, until: isEnd })).toEqual(first);
      await server.kill();
      await server.start();
      expect(await readFrames(server, "s", { after, query, until: isEnd })).toEqual(first);
    }
  });
});

function isEnd({ data }: { data: string }): boolean {
  return data.includes('"type":"turn.ended"');
}
