import { createHash } from "node:crypto";
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  futimesSync,
  lchownSync,
  mkdirSync,
  openSync,
  readSync,
  symlinkSync,
  writeSync,
  type Stats,
} from "node:fs";
import { corrupt } from "./corrupt.ts";
import { MODE_BITS, toPieces, type Entry, type FileEntry } from "./page.ts";
import type { Progress } from "./progress.ts";
import { PIECE_BYTES } from "./readFile.ts";
import type { Graft } from "./restorePlan.ts";
import type { Slice } from "./slice.ts";

export interface StageOptions {
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  readonly slice: Slice;
  readonly progress: Progress;
}

/** Builds all that is new beside the root's own files. Until it is whole nothing of the root changes. */
export class Stage {
  readonly #folder: string;
  readonly #work: string;
  readonly #options: StageOptions;
  /** Which files still need a piece, and where in them. */
  readonly #needs = new Map<string, { file: StagedFile; offset: number }[]>();
  readonly #long: StagedFile[] = [];
  /** The final state of what was made, by the path that it will have. */
  readonly stats = new Map<string, Stats>();
  bytes = 0;

  /** `work` names the same folder as long as the stage is being filled, past whatever is done to its path. */
  constructor(folder: string, work: string, options: StageOptions) {
    this.#folder = folder;
    this.#work = work;
    this.#options = options;
  }

  /** Where a graft waits for its place. */
  at(graft: number): string {
    return `${this.#folder}/${graft}`;
  }

  /** Makes folders, links and empty files, and notes which pieces the others need. */
  async build(grafts: readonly Graft[]): Promise<void> {
    for (const [n, graft] of grafts.entries()) {
      for (const entry of graft.entries) {
        if (this.#options.slice.due) await this.#options.slice.rest();
        this.#make(entry, `${this.#work}/${n}` + entry.path.slice(graft.path.length));
      }
    }
  }

  pieces(): IterableIterator<string> {
    return this.#needs.keys();
  }

  async fill(piece: string, bytes: Uint8Array): Promise<void> {
    for (const { file, offset } of this.#needs.get(piece) ?? []) {
      if (this.#options.slice.due) await this.#options.slice.rest();
      const long = file.entry.pieces !== undefined;
      if (offset + bytes.length > file.entry.size || (!long && bytes.length !== file.entry.size)) {
        throw corrupt(piece, `does not fit into ${JSON.stringify(file.entry.path)}`);
      }
      const fd = openSync(file.at, long ? "r+" : "wx", file.entry.mode & 0o777);
      try {
        writeAll(fd, bytes, offset);
        if (!long) this.#finish(fd, file.entry);
      } finally {
        closeSync(fd);
      }
    }
    this.#needs.delete(piece);
  }

  /** Holds the long files, which came in pieces, to the hash of the whole. */
  async close(): Promise<void> {
    for (const { entry, at } of this.#long) {
      const fd = openSync(at, "r+");
      try {
        if ((await this.#hash(fd)) !== entry.sha256) throw corrupt(entry.path, "is not what its pieces make");
        this.#finish(fd, entry);
      } finally {
        closeSync(fd);
      }
    }
  }

  #make(entry: Entry, at: string): void {
    const { owner } = this.#options;
    if (entry.kind === "directory") {
      mkdirSync(at, 0o700);
      if (owner) lchownSync(at, owner.uid, owner.gid);
    } else if (entry.kind === "symlink") {
      symlinkSync(entry.target, at);
      if (owner) lchownSync(at, owner.uid, owner.gid);
    } else if (entry.kind === "file") this.#expect({ entry, at });
  }

  #expect(file: StagedFile): void {
    const pieces = toPieces(file.entry);
    const long = file.entry.pieces !== undefined;
    if (long || pieces.length === 0) {
      const fd = openSync(file.at, "wx", 0o600);
      if (!long) this.#finish(fd, file.entry);
      closeSync(fd);
    }
    if (long) this.#long.push(file);
    for (const [n, piece] of pieces.entries()) {
      const need = { file, offset: n * PIECE_BYTES };
      const needs = this.#needs.get(piece);
      if (needs) needs.push(need);
      else this.#needs.set(piece, [need]);
    }
  }

  #finish(fd: number, entry: FileEntry): void {
    const { owner, progress } = this.#options;
    const made = fstatSync(fd);
    if (owner && (made.uid !== owner.uid || made.gid !== owner.gid)) fchownSync(fd, owner.uid, owner.gid);
    if ((made.mode & MODE_BITS) !== entry.mode) fchmodSync(fd, entry.mode);
    futimesSync(fd, entry.mtime / 1000, entry.mtime / 1000);
    this.stats.set(entry.path, fstatSync(fd));
    this.bytes += entry.size;
    progress.file(entry.size);
  }

  async #hash(fd: number): Promise<string> {
    const hash = createHash("sha256");
    const buffer = Buffer.allocUnsafe(PIECE_BYTES);
    for (let read = readSync(fd, buffer, 0, PIECE_BYTES, 0), at = 0; read > 0;) {
      hash.update(buffer.subarray(0, read));
      at += read;
      if (this.#options.slice.due) await this.#options.slice.rest();
      read = readSync(fd, buffer, 0, PIECE_BYTES, at);
    }
    return hash.digest("hex");
  }
}

interface StagedFile {
  readonly entry: FileEntry;
  readonly at: string;
}

function writeAll(fd: number, bytes: Uint8Array, offset: number): void {
  let written = 0;
  while (written < bytes.length) {
    written += writeSync(fd, bytes, written, bytes.length - written, offset + written);
  }
}
