import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The disk of the data: one of its own that can be filled, where we may mount one. */
export interface Disk {
  readonly data: string;
  readonly canFill: boolean;
  /** Takes every last page. */
  fill(): Promise<void>;
  free(): Promise<void>;
  remove(): void;
}

export async function makeDisk(): Promise<Disk> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-soak-"));
  const canFill = mount(folder);
  if (!canFill && process.env["CI"] === "true" && process.getuid?.() === 0)
    throw new Error("no disk can be mounted here, and under CI=true it has to be");
  const data = join(folder, "data");
  const filler = join(folder, "filler");
  await mkdir(data);
  return {
    data,
    canFill,
    async fill() {
      const file = await open(filler, "a");
      // Others write meanwhile, so what is left is not known: large pieces as long as they fit, then single pages.
      for (const size of [1024 * 1024, 4096]) {
        const piece = Buffer.alloc(size);
        while ((await file.write(piece).catch(() => ({ bytesWritten: 0 }))).bytesWritten === size);
      }
      await file.close();
    },
    free: () => rm(filler, { force: true }),
    remove() {
      if (canFill) execFileSync("umount", ["-l", folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function mount(folder: string): boolean {
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1g", "tmpfs", folder], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
