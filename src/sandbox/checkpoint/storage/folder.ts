import { link, lstat, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { SluiceError } from "../../../contract/index.ts";
import { ignoring, withFileErrors } from "../../host/files/open-file.ts";
import type { CheckpointStorage } from "../port.ts";

const STALE_MS = 60 * 60 * 1000;
/** For a `catch`: the error of a missing key. */
const absent = ignoring("ENOENT", "ENOTDIR");

/** A storage in the folder `path`: each key is a file, closed to other users. */
export function createFolderStorage(path: string): CheckpointStorage {
  return new FolderStorage(resolve(path));
}

class FolderStorage implements CheckpointStorage {
  readonly folder: string;
  readonly #made = new Set<string>();
  #swept: Promise<void> | undefined;

  constructor(folder: string) {
    this.folder = folder;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.#write(key, bytes, rename);
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    if (await this.has(key)) return false;
    return this.#write(key, bytes, linkOnce);
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    const file = this.#toFile(key);
    return withFileErrors(file, () => readFile(file).catch(absent));
  }

  async has(key: string): Promise<boolean> {
    return (await stat(this.#toFile(key)).catch(absent)) !== undefined;
  }

  async list(prefix: string): Promise<string[]> {
    const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    const entries = await readdir(join(this.folder, folder), { recursive: true, withFileTypes: true }).catch(
      absent,
    );
    return (entries ?? [])
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(this.folder.length + 1))
      .filter((key) => key.startsWith(prefix) && !key.startsWith("."))
      .sort();
  }

  async delete(key: string): Promise<void> {
    await rm(this.#toFile(key), { force: true });
  }

  async #write(
    key: string,
    bytes: Uint8Array,
    move: (from: string, to: string) => Promise<boolean | void>,
  ): Promise<boolean> {
    const file = this.#toFile(key);
    const scratch = join(this.folder, ".new");
    this.#swept ??= sweep(scratch);
    await this.#swept;
    return withFileErrors(file, async () => {
      await this.#make(scratch);
      await this.#make(dirname(file));
      const fresh = join(scratch, `${process.pid}-${Math.random().toString(36).slice(2)}`);
      try {
        await writeSynced(fresh, bytes);
        const moved = (await move(fresh, file)) ?? true;
        await syncFolder(dirname(file));
        return moved;
      } finally {
        await rm(fresh, { force: true });
      }
    });
  }

  async #make(folder: string): Promise<void> {
    if (this.#made.has(folder)) return;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    this.#made.add(folder);
  }

  #toFile(key: string): string {
    const safe = /^[A-Za-z0-9][\w.:!-]*(?:\/[A-Za-z0-9][\w.:!-]*)*$/.test(key);
    if (safe) return join(this.folder, key);
    throw new SluiceError("invalid_request", `${JSON.stringify(key)} is not a key.`, { key });
  }
}

async function writeSynced(file: string, bytes: Uint8Array): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

/** Makes a rename durable: a loss of power could undo it and keep a later object that refers to this one. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function linkOnce(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return false;
    // Some file systems have no hard links.
    if (code !== "EPERM" && code !== "ENOTSUP") throw error;
    await rename(from, to);
    return true;
  }
}

/** Removes files that a killed process has not finished. */
async function sweep(scratch: string): Promise<void> {
  for (const name of (await readdir(scratch).catch(absent)) ?? []) {
    const file = join(scratch, name);
    const found = await lstat(file).catch(absent);
    if (found && Date.now() - found.mtimeMs > STALE_MS) await rm(file, { force: true });
  }
}
