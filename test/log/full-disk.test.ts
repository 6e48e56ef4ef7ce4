import { execFileSync } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { buildProgram } from "./program.ts";
import type { Program } from "./program.ts";

const isRoot = process.getuid?.() === 0;

// The small disk that this fills has to be mounted. A CI that runs as root cannot skip it.
describe.skipIf(!isRoot || (!process.env.CI && !canMount()))(
  "a full disk (skipped where none can be mounted)",
  () => {
    let filler: Program;
    let disk: string;
    beforeAll(async () => (filler = await buildProgram("filler")));
    afterAll(() => filler.dispose());

    it.each(["rows", "long rows", "blobs"])(
      "fails the append as a whole, loses nothing and recovers: %s",
      async (kind) => {
        disk = await mkdtemp(join(tmpdir(), "sluice-disk-"));
        execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
        try {
          const folder = join(disk, "data");
          const run = filler.start(folder, kind);
          expect(await run.exit()).toMatchObject({ code: 0, stderr: "" });
          const saw = JSON.parse(run.lines[0] ?? "");
          expect(saw.codes).toEqual(["storage_full", "storage_full"]);
          expect(saw.detail).toContain(`free space on ${folder}`);
          expect(saw.whenFull.acknowledged).toBeGreaterThan(0);
          expect(saw.whenFull.head).toBe(saw.whenFull.acknowledged);
          expect(saw).toMatchObject({ last: saw.whenFull.head + 20, read: saw.last, gapless: true });
        } finally {
          execFileSync("umount", [disk]);
          await rm(disk, { recursive: true });
        }
      },
    );

    it("is also said when there is no room to begin", async () => {
      disk = await mkdtemp(join(tmpdir(), "sluice-disk-"));
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "tmpfs", disk]);
      try {
        expect(() => createSqliteLog({ folder: join(disk, "data") })).toThrow(/The disk is full/);
      } finally {
        execFileSync("umount", ["-l", disk]);
        await rm(disk, { recursive: true });
      }
    });
  },
);

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "sluice-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], { stdio: "ignore" });
    execFileSync("umount", [folder]);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}
