import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  futimesSync,
  openSync,
  readSync,
  writeSync,
  type Stats,
} from "node:fs";
import { fileError } from "../../host/files/open-file.ts";
import { FolderCursor, type OpenFolder } from "../../host/files/open-folder.ts";
import type { Slice } from "../../host/time-slice.ts";
import type { Owner } from "../../port.ts";
import { PIECE_BYTES, type Progress } from "../content.ts";
import { MODE_BITS, toPieces, type Entry, type FileEntry } from "../manifest.ts";
import { corrupt } from "../storage/pack.ts";
import type { Graft } from "./plan.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_WRONLY } = constants;

interface StagingOptions {
  readonly owner: Owner | undefined;
  readonly slice: Slice;
  readonly progress: Progress;
}

/** Builds all new entries in a folder of the root. The root's own files do not change before it is complete. */
export class StagingFolder {
  readonly #folder: OpenFolder;
  readonly #cursor: FolderCursor;
  readonly #options: StagingOptions;
  /** For each piece, the files that need it and its position in them. */
  readonly #needs = new Map<string, { file: StagedFile; offset: number }[]>();
  readonly #long: StagedFile[] = [];
  /** The final stats of the new files, by their final path. */
  readonly stats = new Map<string, Stats>();
  bytes = 0;

  /** The agent can reach the staging folder, so its entries are reached through open folders only. */
  constructor(folder: OpenFolder, options: StagingOptions) {
    this.#folder = folder;
    this.#cursor = new FolderCursor(folder);
    this.#options = options;
  }

  /** The staged path of a graft. */
  at(graft: number): string {
    return this.#folder.at(String(graft));
  }

  /** Makes folders, links and empty files, and notes the pieces of the other files. */
  async build(grafts: readonly Graft[]): Promise<void> {
    for (const [n, graft] of grafts.entries()) {
      for (const entry of graft.entries) {
        if (this.#options.slice.isOver) await this.#options.slice.pause();
        this.#make(entry, `${n}${entry.path.slice(graft.path.length)}`);
      }
    }
  }

  pieces(): IterableIterator<string> {
    return this.#needs.keys();
  }

  async fill(piece: string, bytes: Uint8Array): Promise<void> {
    for (const { file, offset } of this.#needs.get(piece) ?? []) {
      if (this.#options.slice.isOver) await this.#options.slice.pause();
      const long = file.entry.pieces !== undefined;
      if (offset + bytes.length > file.entry.size || (!long && bytes.length !== file.entry.size)) {
        throw corrupt(piece, `does not fit into ${JSON.stringify(file.entry.path)}`);
      }
      const fd = long ? this.#reopen(file) : this.#create(file, file.entry.mode & 0o777);
      try {
        writeAll(fd, bytes, offset);
        if (!long) this.#finish(fd, file.entry);
      } finally {
        closeSync(fd);
      }
    }
    this.#needs.delete(piece);
  }

  /** Checks the files of several pieces against the hash of the whole. */
  async check(): Promise<void> {
    for (const file of this.#long) {
      const { entry } = file;
      const fd = this.#reopen(file);
      try {
        if ((await this.#hash(fd)) !== entry.sha256) throw corrupt(entry.path, "does not match its hash");
        this.#finish(fd, entry);
      } finally {
        closeSync(fd);
      }
    }
  }

  close(): void {
    this.#cursor.close();
    this.#folder.close();
  }

  #make(entry: Entry, path: string): void {
    const { owner } = this.#options;
    if (entry.kind === "file") return this.#expect({ entry, path });
    if (entry.kind === "unread") return;
    const { folder, name } = this.#cursor.entry(path);
    if (entry.kind === "symlink") folder.link(name, entry.target, owner);
    else folder.make(name, { owner, mode: 0o700 }).close();
  }

  #create({ path }: StagedFile, mode: number): number {
    const { folder, name } = this.#cursor.entry(path);
    return openSync(folder.at(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  }

  /** Opens a file again that is being filled; fails if an agent has replaced it. */
  #reopen({ path }: StagedFile): number {
    const { folder, name } = this.#cursor.entry(path);
    const fd = openSync(folder.at(name), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    const { uid, nlink } = fstatSync(fd);
    if (fstatSync(fd).isFile() && uid === process.geteuid?.() && nlink === 1) return fd;
    closeSync(fd);
    throw fileError("ELOOP");
  }

  #expect(file: StagedFile): void {
    const pieces = toPieces(file.entry);
    const long = file.entry.pieces !== undefined;
    if (long || pieces.length === 0) {
      const fd = this.#create(file, 0o600);
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
      if (this.#options.slice.isOver) await this.#options.slice.pause();
      read = readSync(fd, buffer, 0, PIECE_BYTES, at);
    }
    return hash.digest("hex");
  }
}

interface StagedFile {
  readonly entry: FileEntry;
  /** Relative to the staging folder. */
  readonly path: string;
}

function writeAll(fd: number, bytes: Uint8Array, offset: number): void {
  let written = 0;
  while (written < bytes.length) {
    written += writeSync(fd, bytes, written, bytes.length - written, offset + written);
  }
}
