import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

const INTERVAL_MS = 1_000;
/** Measuring may take up a twentieth of a core, however many files there are. */
const SHARE = 20;

/** The folders that are being watched: one sandbox may be connected to more than once. */
const watched = new Set<string>();

/** Measures folders now and then while somebody may write to them, and says when they are too big. */
export class DiskGuard {
  readonly #folders: readonly string[];
  readonly #limit: number;
  readonly #watch: { isNeeded(): Promise<boolean>; onExceeded(verdict: string): Promise<void> };
  #timer: NodeJS.Timeout | undefined;

  constructor(
    folders: readonly string[],
    limit: number,
    watch: { isNeeded(): Promise<boolean>; onExceeded(verdict: string): Promise<void> },
  ) {
    this.#folders = folders;
    this.#limit = limit;
    this.#watch = watch;
  }

  watch(): void {
    if (this.#timer !== undefined || watched.has(this.#name)) return;
    watched.add(this.#name);
    this.#again(INTERVAL_MS);
  }

  rest(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    watched.delete(this.#name);
  }

  get #name(): string {
    return this.#folders.join(":");
  }

  #again(ms: number): void {
    const timer = setTimeout(() => {
      this.#look()
        .then((took) => {
          if (this.#timer !== timer) return;
          if (took === undefined) this.rest();
          else this.#again(Math.max(INTERVAL_MS, took * SHARE));
        })
        .catch(() => this.#timer === timer && this.#again(INTERVAL_MS));
    }, ms);
    this.#timer = timer.unref();
  }

  /** How long it took; undefined when there is nobody to watch. */
  async #look(): Promise<number | undefined> {
    if (!(await this.#watch.isNeeded())) return undefined;
    const begun = performance.now();
    const sizes = await Promise.all(this.#folders.map(measure));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    if (bytes <= this.#limit) return performance.now() - begun;
    await this.#watch.onExceeded(`out of disk: limit ${Math.round(this.#limit / 1024 / 1024)} MB`);
    return undefined;
  }
}

/** The bytes that a tree takes on the disk. */
async function measure(path: string): Promise<number> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return 0;
  let bytes = found.blocks * 512;
  if (!found.isDirectory()) return bytes;
  for (const entry of await readdir(path, { withFileTypes: true }).catch(() => [])) {
    bytes += await measure(join(path, entry.name));
  }
  return bytes;
}
