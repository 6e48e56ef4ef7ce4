import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { Drafts } from "../../src/http/drafts.ts";

const MB = 1024 * 1024;
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("Drafts on a full disk are not tested: a disk of our own needs root.");

it.skipIf(!isRoot)("a body that does not fit leaves the log its part of the disk", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-drafts-"));
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
    const drafts = new Drafts(join(folder, "uploads"));
    const kept = drafts.with(endless(), async () => "whole");
    await expect(kept).rejects.toMatchObject({ code: "storage_full" });
    expect(least).toBeGreaterThan(8 * MB);
    expect(draftsIn(join(folder, "uploads"))).toEqual([]);
    const fits = drafts.with(one(new Uint8Array(MB)), async ({ size }) => size);
    expect(await fits).toBe(MB);
  } finally {
    execFileSync("umount", ["-l", folder]);
    await rm(folder, { recursive: true, force: true });
  }
});

it("the sweep of another server in this process leaves an upload in flight alone", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-drafts-"));
  try {
    const upload = new PassThrough();
    const kept = new Drafts(folder).with(upload, ({ path }) => readFile(path, "utf8"));
    upload.write("first half, ");
    await expect.poll(() => draftsIn(folder)).toHaveLength(1);
    await writeFile(join(folder, "999999-0123456789abcdef"), "left by an older version");
    await new Drafts(folder).sweep();
    expect(draftsIn(folder)).toHaveLength(1);
    upload.end("second half");
    expect(await kept).toBe("first half, second half");
    expect(draftsIn(folder)).toEqual([]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

function draftsIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

async function* one(chunk: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield chunk;
}
