import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createCheckpoints, createFolderStorage } from "../../../src/sandbox/index.ts";
import { sha256 } from "../../../src/sandbox/checkpoint/storage/pack.ts";
import type { Sandbox } from "../../../src/sandbox/port.ts";
import { RemoteProvider, RemoteRecords } from "../../../src/sandbox/remote/provider.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

const FACTS = {
  id: "sbx_h",
  paths: { workspace: "/w", home: "/h", uploads: "/u", outputs: "/o" },
  shortcomings: [],
  canPause: false,
  gateway: 9,
};

type Answer = unknown | ((response: ServerResponse, request: IncomingMessage) => void);

/** The other end as a compromised machine would have it: each operation answers as the test says. */
async function compromise(answers: Record<string, Answer>): Promise<Sandbox> {
  const folder = await makeFolder();
  const server = createServer((request, response) => {
    const [, , , , operation = ""] = (request.url ?? "").split(/[/?]/);
    const answer = { facts: FACTS, create: FACTS, ...answers }[operation];
    request.resume();
    if (typeof answer === "function")
      return (answer as (to: ServerResponse, from: IncomingMessage) => void)(response, request);
    response.end(JSON.stringify({ value: answer }));
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => sockets.add(socket.on("error", () => {})));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const dial = (): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(socket));
      socket.once("error", reject);
    });
  const provider = new RemoteProvider({ id: "far", dial, records: new RemoteRecords(join(folder, "r")) });
  onCleanup(async () => {
    provider.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return provider.create({ id: "sbx_h" }, { spools: "", epoch: 1 });
}

const refused = { code: "internal", message: expect.stringContaining("does not keep to its protocol") };
const entry = (name: string, path = `/w/${name}`) => ({
  path,
  name,
  entryType: "file",
  size: 1,
  modified: 1,
});
const raw = (text: string) => (response: ServerResponse) => void response.end(text);

const line = (text: unknown, at: number) => ({ dir: "out", text, at });
const page = (rows: unknown[]) => Buffer.from(rows.map((row) => JSON.stringify(row)).join("\n"));

/** A pack of one piece, without compression. */
function pack(piece: Buffer): Buffer {
  const head = Buffer.alloc(12 + 36);
  head.write("SLP1", "latin1");
  head.writeUInt32BE(1, 8);
  head.write(sha256(piece), 12, "hex");
  head.writeUInt32BE(piece.length, 44);
  return Buffer.concat([head, piece]);
}

/** Sends without an end, until the reader leaves. */
const flood = (piece: string) => (response: ServerResponse) => {
  const more = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on("drain", more).on("error", () => {});
  more();
};

describe("a compromised machine", { timeout: 60_000 }, () => {
  it("cannot forge listings, states and shapes", async () => {
    for (const name of ["../../etc/passwd", "..", ".", "a/b", "a\0b"])
      await expect((await compromise({ list: [entry(name)] })).files.list(".")).rejects.toMatchObject(
        refused,
      );
    const moved = await compromise({ list: [entry("a", "/w/../../etc/b")], stat: entry("x", "/y") });
    await expect(moved.files.list(".")).rejects.toMatchObject(refused);
    await expect(moved.files.stat("x")).rejects.toMatchObject(refused);
    const odd = await compromise({ exec: { exitCode: "0" }, state: { size: -1 }, verdict: { a: 1 } });
    await expect(odd.exec("true")).rejects.toMatchObject(refused);
    await expect(odd.processes.open("1")).rejects.toMatchObject(refused);
    await expect(odd.verdict?.()).rejects.toMatchObject(refused);
    const bare = await compromise({ stat: raw("null"), exec: raw("<html>"), list: raw("[".repeat(200_000)) });
    await expect(bare.files.stat("a")).rejects.toMatchObject(refused);
    await expect(bare.exec("true")).rejects.toMatchObject(refused);
    await expect(bare.files.list(".")).rejects.toMatchObject(refused);
    await expect(compromise({ create: { ...FACTS, gateway: 0 } })).rejects.toMatchObject(refused);
    await expect(compromise({ create: { ...FACTS, paths: { workspace: "w" } } })).rejects.toMatchObject(
      refused,
    );
  });

  it("cannot fill the memory with an answer, a problem or a line that does not end", async () => {
    const before = process.memoryUsage().rss;
    const piece = "x".repeat(1024 * 1024);
    const problem = (response: ServerResponse): void => {
      response.writeHead(500);
      flood(piece)(response);
    };
    const sandbox = await compromise({
      exec: flood(piece),
      stat: problem,
      state: { size: 0, length: 0, errorLength: 0, isAlive: true },
      follow: flood(piece),
      file: flood(piece),
    });
    await expect(sandbox.exec("true")).rejects.toMatchObject(refused);
    await expect(sandbox.files.stat("a")).rejects.toMatchObject(refused);
    // A file without a length would have no end.
    await expect(sandbox.files.open("a")).rejects.toMatchObject(refused);
    const spool = await sandbox.processes.open("1");
    const read = async (): Promise<void> => {
      for await (const _ of spool!.follow({ from: 0, signal: AbortSignal.timeout(50_000) }));
    };
    await expect(read()).rejects.toMatchObject(refused);
    expect(process.memoryUsage().rss - before).toBeLessThan(1024 * 1024 * 1024);
  });

  it("cannot turn output back, or send lines of another shape", async () => {
    for (const batch of [
      { lines: [line("a", 5)], offset: 2 },
      { lines: [line(7, 0)], offset: 9 },
      { lines: [line("a", -1)], offset: 9 },
      { lines: "a", offset: 9 },
      { lines: [null], offset: 9 },
      { lines: [], offset: 1e300 },
      { lines: [], offset: 9, exit: { code: "x" } },
    ]) {
      const sandbox = await compromise({
        state: { size: 0, length: 0, errorLength: 0, isAlive: true },
        follow: raw(`${JSON.stringify(batch)}\n`),
      });
      const spool = await sandbox.processes.open("1");
      const read = async (): Promise<void> => {
        for await (const _ of spool!.follow({ from: 0, signal: AbortSignal.timeout(20_000) }));
      };
      await expect(read(), JSON.stringify(batch)).rejects.toMatchObject(refused);
    }
  });

  it("cannot store a checkpoint with foreign content, and no path of one leads out", async () => {
    const folder = await makeFolder();
    const storage = createFolderStorage(join(folder, "store"));
    const checkpoints = createCheckpoints({ storage, cacheFolder: join(folder, "cache") });
    const foreign = sha256("somebody else's secret");
    const forge = async (rows: unknown[], root = "workspace"): Promise<unknown> => {
      const content = page(rows);
      const roots = { [root]: { exclude: [], pages: [sha256(content)] } };
      const manifest = Buffer.from(JSON.stringify({ version: 1, roots }));
      const objects: Record<string, Buffer> = { [sha256(manifest)]: manifest };
      const packed = pack(content);
      objects[sha256(packed)] = packed;
      const sandbox = await compromise({
        "checkpoint-take": { hash: sha256(manifest), packs: [sha256(packed)] },
        object: (response: ServerResponse, { url = "" }: IncomingMessage) => {
          const found = objects[url.slice(-64)] ?? Buffer.alloc(0);
          response.setHeader("content-length", found.length);
          response.end(found);
        },
      });
      return checkpoints.adopt(await sandbox.tree!.bundles!.make(undefined), {});
    };
    await expect(forge([["f", "a", 0o644, 22, 1, foreign]])).rejects.toThrow(/content of a file is missing/);
    await expect(forge([["d", "../a", 0o755]])).rejects.toThrow(/bad line/);
    await expect(
      forge([
        ["l", "a", "/etc"],
        ["f", "a/b", 0o644, 0, 1, foreign],
      ]),
    ).rejects.toThrow(/no folder/);
    await expect(forge([["f", "a", 0o4755, 0, 1, foreign]])).rejects.toThrow(/bad line/);
    await expect(forge([["d", "a", 0o755]], "etc")).rejects.toThrow(/has the root etc/);
    expect(await checkpoints.list()).toEqual([]);
    await expect(forge([["d", "a", 0o755]])).resolves.toMatchObject({ info: { sizeBytes: 0 } });
  });
});
