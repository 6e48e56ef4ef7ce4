import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Blob } from "../outline.ts";

/** Content-addressed texts, one file each: `blobs/ab/abcd…`. */
export class BlobFiles {
  readonly #folder: string;
  readonly #sync: boolean;
  /** Of all files together, once somebody has asked: counted then, and kept up with what happens here. */
  #bytes: number | undefined;

  constructor(folder: string, options: { sync: boolean }) {
    this.#folder = join(folder, "blobs");
    this.#sync = options.sync;
  }

  /** The file appears whole or not at all; one that is there already is left as it is. */
  write(blob: Blob): void {
    const path = this.#path(blob.hash);
    const bytes = Buffer.from(blob.text);
    if (statSync(path, { throwIfNoEntry: false })?.size === bytes.length) return;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const draft = `${path}.${process.pid}.tmp`;
    try {
      const file = openSync(draft, "w", 0o600);
      try {
        writeAll(file, bytes);
        if (this.#sync) fsyncSync(file);
      } finally {
        closeSync(file);
      }
      renameSync(draft, path);
      if (this.#bytes !== undefined) this.#bytes += bytes.length;
      if (this.#sync) syncFolder(dirname(path));
    } catch (error) {
      rmSync(draft, { force: true });
      throw error;
    }
  }

  /** Undefined where the file is missing, or is not what its name says. */
  read(hash: string): string | undefined {
    try {
      const bytes = readFileSync(this.#path(hash));
      return createHash("sha256").update(bytes).digest("hex") === hash ? bytes.toString() : undefined;
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Also what a writer that died left half written. */
  remove(hash: string): void {
    const folder = dirname(this.#path(hash));
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) return;
    for (const name of readdirSync(folder)) {
      if (!name.startsWith(hash)) continue;
      if (this.#bytes !== undefined) this.#bytes -= sizeOf(join(folder, name));
      rmSync(join(folder, name), { force: true });
    }
  }

  size(): number {
    this.#bytes ??= this.#count();
    return this.#bytes;
  }

  #count(): number {
    if (statSync(this.#folder, { throwIfNoEntry: false }) === undefined) return 0;
    let bytes = 0;
    for (const entry of readdirSync(this.#folder, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) bytes += sizeOf(join(entry.parentPath, entry.name));
    return bytes;
  }

  #path(hash: string): string {
    return join(this.#folder, hash.slice(0, 2), hash);
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function writeAll(file: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
}
