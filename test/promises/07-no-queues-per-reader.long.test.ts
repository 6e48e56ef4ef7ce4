import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

const DELTAS = 50_000;
const BYTES = 1000;
/** Short messages, so that the whole texts of messages do not count. */
const FLOOD = Array.from({ length: 50 }, () => ({ flood: { events: DELTAS / 50, bytes: BYTES } }));

let folder: string;
let server: TestServer;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-memory-"));
  await writeFile(join(folder, "hook.cjs"), HOOK);
  const hook = `--expose-gc --require=${join(folder, "hook.cjs")}`;
  server = await startServer({ env: { NODE_OPTIONS: hook, MEMORY_FILE: join(folder, "memory") } });
});
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

it(
  "promise 7: 50,000 deltas to one fast, one paused and ten normal readers, each exactly once, in bounded memory",
  { timeout: 180_000 },
  async () => {
    const session = randomUUID();
    await server.client.sessions.create(session, { agent: "scripted" });
    const paused = await openPaused(server, session);
    const normal = Array.from({ length: 10 }, () => readFrames(server, session, { after: 0, until: isEnd }));
    const fast = readFrames(server, session, { after: 0, until: isEnd });
    const before = await readHeldBytes();
    await server.client.sendMessage(session, script(...FLOOD));
    const expected = (await fast).map((frame) => frame.id);
    expect(expected).toEqual(expected.map((_, index) => String(index + 1)));
    expect(expected.length).toBeGreaterThan(DELTAS);
    for (const frames of await Promise.all(normal)) expect(frames.map((frame) => frame.id)).toEqual(expected);
    // All frames wait for the paused reader: a queue would hold them.
    expect((await readHeldBytes()) - before).toBeLessThan(DELTAS * BYTES);
    // The paused reader was not dropped, and gets everything when it reads on.
    expect(await readRest(paused, String(expected.length))).toEqual(expected);
  },
);

/** Loaded into the server: on a signal it collects its garbage and tells the bytes that are still held. */
const HOOK = `
process.on("SIGUSR2", () => {
  for (let times = 0; times < 3; times += 1) gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  const file = process.env.MEMORY_FILE;
  require("node:fs").writeFileSync(file + ".new", String(heapUsed + arrayBuffers));
  require("node:fs").renameSync(file + ".new", file);
});`;

async function readHeldBytes(): Promise<number> {
  const file = join(folder, "memory");
  await rm(file, { force: true });
  process.kill(server.pid, "SIGUSR2");
  return vi.waitFor(async () => Number(await readFile(file, "utf8")), { timeout: 30_000 });
}

function isEnd({ data }: { data: string }): boolean {
  return data.includes('"type":"turn.ended"');
}

/** A reader that sends its request and does not read the answer. Only the buffers of its socket may fill. */
async function openPaused(server: TestServer, session: string): Promise<Socket> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.write(
    `GET /v1/sessions/${session}/events/sse?extensions=true HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${server.token}\r\n\r\n`,
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
