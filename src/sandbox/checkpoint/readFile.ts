import { createHash } from "node:crypto";
import { closeSync, fstatSync, readSync, type Stats } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { openRegularSync } from "../host/open-file.ts";
import { sha256 } from "./sha256.ts";
import type { Slice } from "./slice.ts";
import type { Content } from "./statCache.ts";
import { attempt } from "./walk.ts";

/** Longer files are kept in pieces, so that one that grows costs its last piece. */
export const PIECE_BYTES = 1024 * 1024;
const TRIES = 4;

export interface FileRead {
  readonly content: Content;
  readonly size: number;
  readonly stat: Stats;
  /** Whether it stood still. If not, this is what was read at last, whole in itself. */
  readonly stable: boolean;
}

export interface ReadOptions {
  readonly slice: Slice;
  readonly slab: Slab;
  /** Called for each piece; the bytes are its own. */
  readonly take?: (sha256: string, bytes: Buffer) => Promise<void> | void;
}

/** Reads a file that somebody may be writing to: again, until it did not change meanwhile. */
export async function readContent(at: string, options: ReadOptions): Promise<FileRead | "gone" | "unread"> {
  for (let tries = 1; ; tries++) {
    const fd = attempt(() => openRegularSync(at));
    if (typeof fd === "string") return fd;
    try {
      const read = await readOnce(fd, options);
      if (read === "gone" || read.stable || tries === TRIES) return read;
    } finally {
      closeSync(fd);
    }
    await setTimeout(5 * tries);
  }
}

async function readOnce(fd: number, { slice, slab, take }: ReadOptions): Promise<FileRead | "gone"> {
  const before = fstatSync(fd);
  if (!before.isFile()) return "gone";
  const whole = before.size > PIECE_BYTES ? createHash("sha256") : undefined;
  const pieces: string[] = [];
  let size = 0;
  while (size < before.size) {
    const bytes = readPiece(fd, slab.cut(Math.min(PIECE_BYTES, before.size - size)));
    if (bytes.length === 0) break;
    size += bytes.length;
    whole?.update(bytes);
    const hash = sha256(bytes);
    pieces.push(hash);
    await take?.(hash, bytes);
    if (slice.due) await slice.rest();
  }
  const stat = fstatSync(fd);
  const stable =
    size === stat.size &&
    before.size === stat.size &&
    before.mtimeMs === stat.mtimeMs &&
    before.ctimeMs === stat.ctimeMs;
  return { content: toContent(pieces, whole?.digest("hex")), size, stat, stable };
}

function toContent(pieces: string[], whole: string | undefined): Content {
  const [only = EMPTY_SHA256] = pieces;
  if (pieces.length <= 1 || whole === undefined) return { sha256: only };
  return { sha256: whole, pieces };
}

export const EMPTY_SHA256: string = sha256("");

/** Cuts buffers from large ones: thousands of small ones of their own would keep the garbage collector busy. */
export class Slab {
  #rest = Buffer.alloc(0);

  cut(length: number): Buffer {
    if (length > this.#rest.length) this.#rest = Buffer.allocUnsafeSlow(4 * PIECE_BYTES);
    const bytes = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return bytes;
  }
}

function readPiece(fd: number, bytes: Buffer): Buffer {
  let filled = 0;
  while (filled < bytes.length) {
    const read = readSync(fd, bytes, filled, bytes.length - filled, null);
    if (read === 0) return bytes.subarray(0, filled);
    filled += read;
  }
  return bytes;
}
