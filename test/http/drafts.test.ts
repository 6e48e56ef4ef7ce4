import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
    expect(await readdir(join(folder, "uploads"))).toEqual([]);
    const fits = drafts.with(one(new Uint8Array(MB)), async ({ size }) => size);
    expect(await fits).toBe(MB);
  } finally {
    execFileSync("umount", ["-l", folder]);
    await rm(folder, { recursive: true, force: true });
  }
});

async function* one(chunk: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield chunk;
}
