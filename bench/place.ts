import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The bench is bundled into one folder; its workers lie beside it. */
export function bundled(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** `scripts/bench.mjs` starts us in the project's folder. */
export const ROOT = process.cwd();

export async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
