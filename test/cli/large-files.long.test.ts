import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";

const MB = 1024 * 1024;
const SIZE = 2048 * MB;
/** What the server may use beyond its own start, for a file of any size. */
const ALLOWED = 120 * MB;

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  await server.client.sessions.create("s", { agent: "scripted" });
  await server.client.fs.write("s", "small.txt", "small");
}, 60_000);
afterAll(() => server.close());

/** Blocks that differ from each other, so that a lost or a repeated one changes the digest. */
function* blocks(): Generator<Buffer> {
  const block = Buffer.alloc(MB, "0123456789abcdef");
  for (let at = 0; at < SIZE; at += MB) {
    block.writeUInt32LE(at / MB);
    yield Buffer.from(block);
  }
}

async function peak(): Promise<number> {
  const status = await readFile(`/proc/${server.pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

it(
  "a file of 2 GB goes up and down at flat memory, and leaves nothing behind",
  { timeout: 600_000 },
  async () => {
    const before = await peak();
    const sent = createHash("sha256");
    const given = blocks();
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const { value, done } = given.next();
        if (done) return controller.close();
        sent.update(value);
        controller.enqueue(value);
      },
    });
    const path = "/v1/fs/file?session=s&path=large.bin";
    const up = await server.fetch(path, { method: "PUT", body, duplex: "half" } as RequestInit);
    expect([up.status, await up.text()]).toEqual([200, expect.stringContaining(String(SIZE))]);
    const got = createHash("sha256");
    let length = 0;
    const down = await server.fetch(path);
    for await (const chunk of down.body as unknown as AsyncIterable<Uint8Array>) {
      got.update(chunk);
      length += chunk.length;
    }
    expect(length).toBe(SIZE);
    expect(got.digest("hex")).toBe(sent.digest("hex"));
    expect((await peak()) - before).toBeLessThan(ALLOWED);
    const removed = await server.fetch("/v1/fs/entry?session=s&path=large.bin", { method: "DELETE" });
    expect(removed.ok).toBe(true);
    const left = await readdir(join(server.data, "uploads"));
    expect(left.filter((name) => name !== "owners")).toEqual([]);
  },
);
