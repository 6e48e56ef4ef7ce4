import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFolderStorage } from "../../../src/sandbox/checkpoint/storage/folder.ts";
import { createS3Storage } from "../../../src/sandbox/checkpoint/storage/s3.ts";
import { checkpointStorageTestkit } from "../../../src/sandbox/checkpoint/storage/testkit.ts";
import { look, makeBench, makeFolder, plant } from "./bench.ts";
import { startS3, type S3Server } from "./s3.ts";

let s3: S3Server;
let spaces = 0;
beforeAll(async () => {
  s3 = await startS3();
});
afterAll(() => s3.stop());

checkpointStorageTestkit({
  name: "a folder",
  describe,
  it,
  create: async () => {
    const path = join(makeFolder(), "storage");
    return {
      storage: createFolderStorage(path),
      again: createFolderStorage(path),
      dispose: async () => {},
    };
  },
});

checkpointStorageTestkit({
  name: "S3",
  describe,
  it,
  create: async () => {
    const options = { ...s3.options, prefix: `space-${spaces++}` };
    return { storage: createS3Storage(options), again: createS3Storage(options), dispose: async () => {} };
  },
});

describe("a folder as storage", () => {
  it("closes its files to others, and leaves nothing half written in sight", async () => {
    const folder = join(makeFolder(), "storage");
    const storage = createFolderStorage(folder);
    await storage.put("packs/aa/x", Buffer.from("secret"));
    expect(statSync(join(folder, "packs/aa/x")).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    writeFileSync(join(folder, ".new", "half"), "ha");
    expect(await storage.list("")).toEqual(["packs/aa/x"]);
    expect(readdirSync(join(folder, ".new"))).toEqual(["half"]);
  });

  it.each(["../x", "/x", "a//b", "a/../b", ".x", "a/.x", "a b", ""])("refuses the key %j", async (key) => {
    const storage = createFolderStorage(join(makeFolder(), "storage"));
    await expect(storage.put(key, Buffer.from("x"))).rejects.toMatchObject({ code: "invalid_request" });
    await expect(storage.get(key)).rejects.toMatchObject({ code: "invalid_request" });
  });

  it("says so when it cannot write there", async () => {
    const file = join(makeFolder(), "file");
    writeFileSync(file, "");
    const storage = createFolderStorage(join(file, "storage"));
    await expect(storage.put("x", Buffer.from("x"))).rejects.toMatchObject({ code: "file_not_found" });
  });
});

describe("S3 as storage", () => {
  it("keeps checkpoints of one machine and restores them on another", async () => {
    const storage = createS3Storage({ ...s3.options, prefix: `space-${spaces++}/deep` });
    const bench = makeBench(storage);
    const long = Buffer.alloc(5_000_000, "long text ");
    plant(bench.workspace, { "a/b.txt": "hello", "long.bin": long, "empty/": "" });
    plant(bench.home, { ".claude/projects/p/session.jsonl": "{}\n" });
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots, sessionId: "s" });
    const there = { workspace: join(bench.folder, "there"), home: join(bench.folder, "there-home") };
    const restored = await bench.reopened().restore("latest", { roots: there, sessionId: "s" });
    expect(restored.info).toEqual(info);
    expect(look(there.workspace)).toEqual(look(bench.workspace));
    expect(look(there.home)).toEqual(look(bench.home));
    expect(await bench.reopened().list()).toEqual([info]);
    await bench.checkpoints.remove(info.id);
    await bench.checkpoints.gc({ graceMs: 0 });
    expect(await bench.objects("packs/")).toEqual([]);
  });

  it("tries again when the server stumbles or hangs up, and is right in the end", async () => {
    const troubles = ["503", "reset", "500", "", "", "429", "", "reset", ""];
    await using proxy = await startTroubled(s3.options.endpoint, troubles);
    const storage = createS3Storage({ ...s3.options, endpoint: proxy.url, prefix: "p", backoffMs: 1 });
    await storage.put("k", Buffer.from("value"));
    expect(Buffer.from((await storage.get("k")) ?? []).toString()).toBe("value");
    expect(await storage.list("k")).toEqual(["k"]);
    expect(await storage.has("k")).toBe(true);
    expect(troubles).toEqual([]);
  });

  it("gives up with words when it never works", async () => {
    await using proxy = await startTroubled(s3.options.endpoint, Array(20).fill("503"));
    const options = { ...s3.options, endpoint: proxy.url, backoffMs: 1, tries: 3 };
    await expect(createS3Storage(options).put("k", Buffer.from("x"))).rejects.toThrow(/answered 503/);
    const nowhere = { ...s3.options, endpoint: "http://127.0.0.1:1", backoffMs: 1, tries: 2 };
    await expect(createS3Storage(nowhere).get("k")).rejects.toMatchObject({ code: "stream_error" });
  });

  it("says which bucket is missing instead of finding nothing in it", async () => {
    const storage = createS3Storage({ ...s3.options, bucket: "elsewhere" });
    await expect(storage.get("k")).rejects.toThrow(/NoSuchBucket.*elsewhere/);
    await expect(storage.list("")).rejects.toThrow(/NoSuchBucket/);
  });

  it("notices bytes that changed on the way", async () => {
    const prefix = `space-${spaces++}`;
    const bench = makeBench(createS3Storage({ ...s3.options, prefix }));
    plant(bench.workspace, { a: "the content" });
    await bench.checkpoints.checkpoint({ roots: bench.roots });
    const [pack = ""] = await bench.objects("packs/");
    const bytes = Buffer.from((await bench.storage.get(pack)) ?? []);
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
    await bench.storage.put(pack, bytes);
    const fresh = { workspace: join(bench.folder, "fresh") };
    await expect(bench.reopened().restore("latest", { roots: fresh })).rejects.toThrow(/has changed since/);
    expect(() => readFileSync(join(fresh.workspace, "a"))).toThrow(/ENOENT/);
  });
});

/** Passes requests on to a server, after the next fault of the list. */
async function startTroubled(
  target: string,
  troubles: string[],
): Promise<{ url: string; [Symbol.asyncDispose](): Promise<void> }> {
  const { host, port } = { host: new URL(target).hostname, port: new URL(target).port };
  const server: Server = createServer((incoming, outgoing) => {
    const trouble = troubles.shift() ?? "";
    if (trouble === "reset") return incoming.socket.destroy();
    if (trouble !== "") {
      incoming.resume();
      return outgoing.writeHead(Number(trouble)).end("<Error><Code>SlowDown</Code></Error>");
    }
    const { method = "GET", url: path = "/", headers } = incoming;
    const passed = request({ host, port, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    return incoming.pipe(passed);
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
