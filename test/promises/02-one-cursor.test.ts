import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as fc from "fast-check";
import { script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("promise 2: one cursor", () => {
  let server: TestServer;
  let uncut: string[];
  beforeAll(async () => {
    server = await startServer();
    await server.client.sessions.create("s", { agent: "scripted" });
    await server.client.sendMessage(
      "s",
      script(
        { say: "a b c d" },
        { shell: "seq 1 200" },
        { flood: { events: 500, bytes: 8 } },
        { say: "é ü 漢" },
      ),
    );
    await server.client.sendMessage("s", "and the built-in performance");
    await server.client.sendMessage("s", script({ exit: 1 }));
    uncut = (await readFrames(server, "s", { after: 0 })).map((frame) => frame.data);
    expect(JSON.parse(uncut.at(-1) ?? "{}")).toMatchObject({ type: "session.ended" });
  });
  afterAll(() => server.close());

  it("is gapless from 1, and the id of every frame", async () => {
    const frames = await readFrames(server, "s", { after: 0 });
    expect(frames.map((frame) => frame.id)).toEqual(frames.map((_, index) => String(index + 1)));
  });

  it("30 random cuts and resumes equal the uncut log", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 6 }),
        fc.boolean(),
        async (cuts, byHeader) => {
          const joined: string[] = [];
          for (const cut of [...cuts, Number.POSITIVE_INFINITY]) {
            if (joined.length === uncut.length) break;
            const frames = await readFrames(server, "s", { after: joined.length, byHeader, cutAfter: cut });
            joined.push(...frames.map((frame) => frame.data));
          }
          expect(joined).toEqual(uncut);
        },
      ),
      { numRuns: 30 },
    );
  });

  it("pages and the stream say the same", async () => {
    const events: unknown[] = [];
    for await (const event of server.client.events.iterate("s", { extensions: true, limit: 77 }))
      events.push(event);
    expect(events).toEqual(uncut.map((data) => JSON.parse(data)));
  });

  it.each([
    ["/events/sse?offset=x", 400],
    ["/events/sse?offset=-1", 400],
    ["/events/sse?offset=1.5", 400],
    ["/events/sse?offset=99999999", 410],
    ["/events?offset=x", 400],
    ["/events?limit=0", 400],
    ["/events?limit=-1", 400],
    ["/events?types=no.such", 400],
  ])("answers %s with %i, never with silence", async (path, status) => {
    const response = await server.fetch(`/v1/sessions/s${path}`);
    expect(response.status).toBe(status);
    expect(response.headers.get("content-type")).toContain("application/problem+json");
    const problem = (await response.json()) as { detail: string; head?: number };
    expect(problem.detail.length).toBeGreaterThan(10);
    if (status === 410) expect(problem.head).toBe(uncut.length);
  });

  it("an unusable Last-Event-ID is refused too", async () => {
    const response = await server.fetch("/v1/sessions/s/events/sse", { headers: { "last-event-id": "abc" } });
    expect(response.status).toBe(400);
  });
});
