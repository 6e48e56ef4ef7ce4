import type { Stats } from "node:fs";
import { lstat, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Content } from "./content.ts";
import { replaceCached } from "./storage/content-index.ts";
import { sha256 } from "./storage/pack.ts";

type Row = [
  path: string,
  size: number,
  mtime: number,
  ctime: number,
  inode: number,
  mode: number,
  ...string[],
];

/** The known hashes of a root's files, on disk. An unchanged file needs only an lstat and is not read again. */
export class StatCache {
  readonly #file: string;
  readonly #root: string;
  readonly #known: ReadonlyMap<string, Row>;
  readonly #seen = new Map<string, Row>();
  #changed = false;

  private constructor(file: string, root: string, rows: readonly Row[]) {
    this.#file = file;
    this.#root = root;
    this.#known = new Map(rows.map((row) => [row[0], row]));
  }

  static async load(folder: string, root: string): Promise<StatCache> {
    const file = join(folder, "stats", `${sha256(root).slice(0, 32)}.json`);
    const text = await readFile(file, "utf8").catch(() => "");
    return new StatCache(file, root, parse(text, root));
  }

  find(path: string, stat: Stats): Content | undefined {
    const row = this.#known.get(path);
    if (row === undefined) return undefined;
    const [, size, mtime, ctime, inode, mode, sha256, ...pieces] = row;
    // A time in milliseconds is exact to a quarter of a microsecond as a double. No kernel's file clock is finer.
    const same = size === stat.size && mtime === stat.mtimeMs && ctime === stat.ctimeMs;
    if (!same || inode !== stat.ino || mode !== stat.mode || sha256 === undefined) return undefined;
    this.#seen.set(path, row);
    return { sha256, ...(pieces.length > 0 && { pieces }) };
  }

  /** Keeps the hashes of a file that was read just now. `settled`: no program writes to it. */
  keep(path: string, stat: Stats, content: Content, options: { settled?: boolean } = {}): void {
    this.#changed = true;
    if (!options.settled && isFresh(stat)) return;
    const { size, mtimeMs, ctimeMs, ino, mode } = stat;
    const hashes = [content.sha256, ...(content.pieces ?? [])];
    this.#seen.set(path, [path, size, mtimeMs, ctimeMs, ino, mode, ...hashes]);
  }

  forget(path: string): void {
    this.#changed ||= this.#seen.delete(path);
  }

  /** Saves the entries that were found or kept since loading; the others are gone from the root. */
  async save(): Promise<void> {
    if (!this.#changed && this.#seen.size === this.#known.size) return;
    const text = JSON.stringify({ version: 1, root: this.#root, rows: [...this.#seen.values()] });
    await replaceCached(this.#file, text);
  }
}

/** Removes the caches of roots that are gone. */
export async function sweepStatCaches(folder: string): Promise<void> {
  const stats = join(folder, "stats");
  for (const name of await readdir(stats).catch(() => [])) {
    const root = await readRoot(join(stats, name));
    const exists = root !== undefined && (await lstat(root).catch(() => undefined)) !== undefined;
    if (!exists) await rm(join(stats, name), { force: true });
  }
}

/** The root of a cache file, from its beginning: the rows after it may be many. */
async function readRoot(file: string): Promise<string | undefined> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(16_384), 0, 16_384, 0);
    const text = /^\{"version":1,"root":("(?:[^"\\]|\\.)*"),/.exec(
      buffer.toString("utf8", 0, bytesRead),
    )?.[1];
    return text === undefined ? undefined : (JSON.parse(text) as string);
  } finally {
    await handle.close();
  }
}

/** Whether the file changed so lately that another change could leave the same times. Such a file is not kept. */
function isFresh(stat: Stats): boolean {
  const tick = stat.ctimeMs % 1000 === 0 ? 2000 : 100;
  return Date.now() - stat.ctimeMs < tick;
}

function parse(text: string, root: string): Row[] {
  try {
    const value = JSON.parse(text) as { version?: number; root?: string; rows?: Row[] };
    return value.version === 1 && value.root === root && Array.isArray(value.rows) ? value.rows : [];
  } catch {
    return [];
  }
}
