import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";

const MB = 1024 * 1024;
const SIZE = 300 * MB;
/** The memory limit of a server for a file of any size. */
const ALLOWED = 120 * MB;

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  await server.client.sessions.create("s", { agent: "scripted" });
  await server.client.fs.write("s", "small.txt", "small");
});
afterAll(() => server.close());

const block = Buffer.alloc(MB, "0123456789abcdef");

function blocks(size: number, before?: Uint8Array): ReadableStream<Uint8Array> {
  let left = size;
  return new ReadableStream({
    start: (controller) => before && controller.enqueue(before),
    pull(controller) {
      controller.enqueue(block);
      left -= block.length;
      if (left <= 0) controller.close();
    },
  });
}

async function peak(): Promise<number> {
  const status = await readFile(`/proc/${server.pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

const descriptors = async (): Promise<number> => (await readdir(`/proc/${server.pid}/fd`)).length;
/** Unfinished uploads; the locks of their servers are in the same folder. */
const uploads = async (): Promise<string[]> =>
  (await readdir(join(server.data, "uploads")).catch(() => [])).filter((name) => name !== "owners");
const file = (path: string): string => `/v1/fs/file?session=s&path=${path}`;

/** The header of one file in a tar archive. */
function tarHeader(name: string, size: number): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  header.write("        ", 148);
  header.write("0", 156);
  header.write("ustar\u000000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

describe("files of any size", () => {
  it("are written and read at constant memory, alone and in an archive", async () => {
    const { fs } = server.client;
    const before = await peak();
    const expected = createHash("sha256");
    for (let sent = 0; sent < SIZE; sent += MB) expected.update(block);
    await fs.write("s", "large.bin", blocks(SIZE));
    await fs.uploadBatch("s", "unpacked", blocks(SIZE, tarHeader("in.bin", SIZE)));
    const found = createHash("sha256");
    let size = 0;
    for await (const chunk of (await fs.stream("s", "large.bin")) as unknown as AsyncIterable<Uint8Array>) {
      found.update(chunk);
      size += chunk.length;
    }
    expect([size, found.digest("hex")]).toEqual([SIZE, expected.digest("hex")]);
    expect(await fs.stat("s", "unpacked/in.bin")).toMatchObject({ size: SIZE });
    expect((await peak()) - before).toBeLessThan(ALLOWED);
    expect(await uploads()).toEqual([]);
    await fs.remove("s", "unpacked", { recursive: true });
  });

  it("are copied at constant memory between a Managed Agents session and the server", async () => {
    const { beta } = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` });
    const agent = await beta.agents.create({ name: "copies", model: "scripted" });
    const environment = await beta.environments.create({ name: "copies" });
    const session = await beta.sessions.create({ agent: agent.id, environment_id: environment.id });
    const before = await peak();
    const content = new Blob(Array.from({ length: SIZE / MB }, () => block));
    const uploaded = await beta.files.upload({ file: new File([content], "large.bin") });
    const added = await beta.sessions.resources.add(session.id, { type: "file", file_id: uploaded.id });
    const stream = await beta.sessions.events.stream(session.id);
    const copy = `#script ${JSON.stringify([{ shell: "cp /mnt/session/uploads/*/large.bin output/copy.bin" }])}`;
    const document = { type: "document", source: { type: "file", file_id: uploaded.id } } as const;
    const message = { type: "user.message", content: [{ type: "text", text: copy }, document] } as const;
    await beta.sessions.events.send(session.id, { events: [message as never] });
    for await (const { type } of stream) if (type === "session.status_idle") break;
    const found: Record<string, number> = {};
    for await (const file of beta.files.list({ scope_id: session.id }))
      found[file.filename] = file.size_bytes;
    expect(found).toEqual({ "large.bin": SIZE, "copy.bin": SIZE });
    expect(await server.client.fs.stat(session.id, added.mount_path)).toMatchObject({ size: SIZE });
    expect((await peak()) - before).toBeLessThan(ALLOWED);
    await beta.sessions.delete(session.id);
    await beta.files.delete(uploaded.id);
  });

  it("leave no file open after a HEAD request or a disconnect", async () => {
    const before = await descriptors();
    for (let times = 0; times < 20; times += 1) {
      const head = await server.fetch(file("large.bin"), { method: "HEAD" });
      expect(head.headers.get("content-length")).toBe(String(SIZE));
      const abort = new AbortController();
      const read = await server.fetch(file("large.bin"), { signal: abort.signal });
      await read.body?.getReader().read();
      abort.abort();
    }
    await vi.waitUntil(async () => (await descriptors()) < before + 10, { timeout: 20_000 });
  });
});

describe("an upload that is cut", () => {
  /** Sends a first part and then stalls until it is aborted. */
  async function begin(path: string): Promise<{ abort: () => void; answer: Promise<unknown> }> {
    const abort = new AbortController();
    const body = new ReadableStream({ start: (controller) => controller.enqueue(block) });
    const init = { method: "PUT", body, duplex: "half", signal: abort.signal } as RequestInit;
    const answer = server.fetch(file(path), init).catch(() => "cut");
    await vi.waitUntil(async () => (await uploads()).length > 0, { timeout: 20_000 });
    return { abort: () => abort.abort(), answer };
  }

  it("changes nothing and leaves nothing", async () => {
    const { abort, answer } = await begin("small.txt");
    abort();
    expect(await answer).toBe("cut");
    await vi.waitUntil(async () => (await uploads()).length === 0, { timeout: 20_000 });
    expect(Buffer.from(await server.client.fs.read("s", "small.txt")).toString()).toBe("small");
  });

  it("by the server's death is removed by the next server", async () => {
    const { answer } = await begin("small.txt");
    await server.kill();
    expect(await answer).toBe("cut");
    expect(await uploads()).toHaveLength(1);
    await server.start();
    await vi.waitUntil(async () => (await uploads()).length === 0, { timeout: 20_000 });
    expect(Buffer.from(await server.client.fs.read("s", "small.txt")).toString()).toBe("small");
  });
});
