import { createHash } from "node:crypto";
import { closeSync, fstatSync, readSync, type Stats } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { openRegularSync } from "../host/files/open-file.ts";
import type { Slice } from "../host/time-slice.ts";
import type { CheckpointProgress } from "./port.ts";
import { sha256 } from "./storage/pack.ts";
import { attempt } from "./walk.ts";

/** Longer files are stored in pieces of this size, so that a growing file costs its last piece only. */
export const PIECE_BYTES = 1024 * 1024;
const TRIES = 4;

interface FileRead {
  readonly content: Content;
  readonly size: number;
  readonly stat: Stats;
  /**
   * Whether the file did not change while it was read. False means that every try saw a change, and this is the last
   * try.
   */
  readonly stable: boolean;
}

interface ReadOptions {
  readonly slice: Slice;
  readonly slab: Slab;
  /** Called for each piece. It may keep the bytes. */
  readonly take?: (sha256: string, bytes: Buffer) => Promise<void> | void;
}

/** Reads a file that another program may write to: repeats until it stays unchanged, a few times at most. */
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
    if (slice.isOver) await slice.pause();
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

const EMPTY_SHA256: string = sha256("");

/** Cuts buffers from large ones: thousands of small allocations would keep the garbage collector busy. */
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

/** The content of a file: its sha256, and those of its pieces if it has more than one. */
export interface Content {
  readonly sha256: string;
  readonly pieces?: readonly string[] | undefined;
}

const EVERY_MS = 100;

/** Counts files and bytes, and reports the counts at most every 100 ms. */
export class Progress {
  readonly #listener: ((progress: CheckpointProgress) => void) | undefined;
  #reportedAt = 0;
  files = 0;
  bytes = 0;
  filesRead = 0;
  bytesRead = 0;
  total: number | undefined;

  constructor(listener: ((progress: CheckpointProgress) => void) | undefined) {
    this.#listener = listener;
  }

  file(bytes: number): void {
    this.files += 1;
    this.bytes += bytes;
    if (this.#listener === undefined) return;
    const now = performance.now();
    if (now - this.#reportedAt < EVERY_MS) return;
    this.#reportedAt = now;
    this.report();
  }

  read(bytes: number): void {
    this.filesRead += 1;
    this.bytesRead += bytes;
  }

  report(): void {
    const { files, bytes, total } = this;
    this.#listener?.({ files, bytes, ...(total !== undefined && { total }) });
  }
}
