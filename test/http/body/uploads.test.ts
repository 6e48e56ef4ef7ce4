import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { Uploads } from "../../../src/http/body/uploads.ts";

const MB = 1024 * 1024;
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("Uploads on a full disk are not tested: a disk of our own needs root.");

it.skipIf(!isRoot)("a body that does not fit leaves the reserve of the disk to the log", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=100m", "none", folder]);
  let least = Infinity;
  async function* endless(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const { bavail, bsize } = await statfs(folder);
      least = Math.min(least, bavail * bsize);
      yield new Uint8Array(MB);
    }
  }
  try {
    const uploads = new Uploads(join(folder, "uploads"));
    const kept = uploads.with(endless(), async () => "whole");
    await expect(kept).rejects.toMatchObject({ code: "storage_full" });
    expect(least).toBeGreaterThan(8 * MB);
    expect(uploadsIn(join(folder, "uploads"))).toEqual([]);
    const fits = uploads.with(one(new Uint8Array(MB)), async ({ size }) => size);
    expect(await fits).toBe(MB);
  } finally {
    execFileSync("umount", ["-l", folder]);
    await rm(folder, { recursive: true, force: true });
  }
});

it("the sweep of another server in this process leaves an upload in flight alone", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
  try {
    const upload = new PassThrough();
    const kept = new Uploads(folder).with(upload, ({ path }) => readFile(path, "utf8"));
    upload.write("first half, ");
    await expect.poll(() => uploadsIn(folder)).toHaveLength(1);
    await writeFile(join(folder, "999999-0123456789abcdef"), "left by an older version");
    await new Uploads(folder).sweep();
    expect(uploadsIn(folder)).toHaveLength(1);
    upload.end("second half");
    expect(await kept).toBe("first half, second half");
    expect(uploadsIn(folder)).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it("an upload whose lock cannot be made is refused, and the next one releases its own lock", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
  try {
    const uploads = new Uploads(folder);
    const owners = join(folder, "owners");
    const upload = (): Promise<number> => uploads.with(one(new Uint8Array(3)), async ({ size }) => size);
    await writeFile(owners, "in place of the folder");
    await expect(upload()).rejects.toThrow("ENOTDIR");
    await rm(owners);
    expect(await upload()).toBe(3);
    expect(readdirSync(owners)).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

function uploadsIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

async function* one(chunk: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield chunk;
}
