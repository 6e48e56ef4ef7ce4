import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

const DELTAS = 50_000;
let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

it(
  "promise 7: 50,000 deltas to one fast, one paused and ten normal readers, each exactly once, in bounded memory",
  { timeout: 180_000 },
  async () => {
    await server.client.sessions.create("s", { agent: "scripted" });
    const paused = await openPaused(server);
    const normal = Array.from({ length: 10 }, () => readFrames(server, "s", { after: 0, until: isEnd }));
    const fast = readFrames(server, "s", { after: 0, until: isEnd });
    const before = await residentBytes(server.pid);
    await server.client.sendMessage("s", script({ flood: { events: DELTAS, bytes: 400 } }));
    const expected = (await fast).map((frame) => frame.id);
    expect(expected).toEqual(expected.map((_, index) => String(index + 1)));
    expect(expected.length).toBeGreaterThan(DELTAS);
    for (const frames of await Promise.all(normal)) expect(frames.map((frame) => frame.id)).toEqual(expected);
    // 20 MB of deltas, and as much again in the message's whole text: a queue for the paused reader would show.
    const grown = (await residentBytes(server.pid)) - before;
    expect(grown).toBeLessThan(400 * 1024 * 1024);
    // The paused reader was not dropped, and gets everything when it reads on.
    expect(await readRest(paused, String(expected.length))).toEqual(expected);
  },
);

function isEnd({ data }: { data: string }): boolean {
  return data.includes('"type":"turn.ended"');
}

/** A reader that sends its request and does not read the answer. Only the buffers of its socket may fill. */
async function openPaused(server: TestServer): Promise<Socket> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.write(
    `GET /v1/sessions/s/events/sse?extensions=true HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${server.token}\r\n\r\n`,
  );
  await once(socket, "readable");
  return socket;
}

async function readRest(socket: Socket, last: string): Promise<string[]> {
  const chunks: Buffer[] = [];
  let carry = "";
  for await (const chunk of socket) {
    chunks.push(chunk as Buffer);
    const text = carry + (chunk as Buffer).toString("latin1");
    if (text.includes(`id: ${last}\n`)) break;
    carry = text.slice(-32);
  }
  socket.destroy();
  return [
    ...Buffer.concat(chunks)
      .toString("latin1")
      .matchAll(/id: (\d+)\n/g),
  ].map((match) => match[1] ?? "");
}

async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
}
