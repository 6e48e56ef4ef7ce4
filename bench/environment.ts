import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Milliseconds of the monotonic clock that all processes of the machine share. Only differences have a meaning. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** A port without a listener. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** The bench is bundled into one folder; its workers lie beside it. */
export function bundled(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

/** `scripts/bench.mjs` starts the bench in the project's folder. */
export const ROOT = process.cwd();

export async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
