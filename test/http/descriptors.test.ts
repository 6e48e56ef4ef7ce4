import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";

const LIMIT = 900;
const READERS = 40;

describe.runIf(process.platform === "linux")("/metrics on descriptors", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ prefix: ["prlimit", `--nofile=${LIMIT}:${LIMIT}`] });
  });
  afterAll(() => server.close());

  const tell = async (): Promise<{ open: number; limit: number }> => {
    const text = await (await server.fetch("/metrics")).text();
    const read = (name: string): number => Number(new RegExp(`^sluice_${name} (\\d+)$`, "m").exec(text)?.[1]);
    return { open: read("descriptors_open"), limit: read("descriptors_limit") };
  };

  it("reports the limit and the count, which follows the readers", async () => {
    await server.client.sessions.create("read", { agent: "scripted" });
    const streams = await Promise.all(
      Array.from({ length: READERS }, async () => {
        const headers = { authorization: `Bearer ${server.token}` };
        const request = get(`${server.url}/v1/sessions/read/events/sse`, { headers, agent: false });
        const [response] = (await once(request, "response")) as [IncomingMessage];
        expect(response.statusCode).toBe(200);
        return request;
      }),
    );
    const reading = await tell();
    expect(reading.limit).toBe(LIMIT);
    expect(reading.open).toBeGreaterThan(READERS);
    expect(reading.open).toBeLessThan(LIMIT);
    for (const stream of streams) stream.destroy();
    await expect
      .poll(async () => (await tell()).open, { timeout: 20_000 })
      .toBeLessThan(reading.open - READERS / 2);
  });
});
