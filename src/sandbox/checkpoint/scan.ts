import type { Stats } from "node:fs";
import type { Exclusion } from "./exclusion.ts";
import type { PackWriter } from "./packWriter.ts";
import { MODE_BITS, toPieces, type Entry } from "./page.ts";
import type { Progress } from "./progress.ts";
import { readContent, type Slab } from "./readFile.ts";
import type { Slice } from "./slice.ts";
import type { Content, StatCache } from "./statCache.ts";
import { walk, type Found } from "./walk.ts";

/** A sparse file can claim any size; nobody's work is in one of more than this. */
const FILE_LIMIT = 16 * 1024 * 1024 * 1024;

export interface ScanOptions {
  readonly exclusion: Exclusion;
  readonly cache: StatCache;
  readonly writer: PackWriter;
  readonly slice: Slice;
  readonly slab: Slab;
  readonly progress: Progress;
}

export interface Scanned {
  /** In order. */
  readonly entries: readonly Entry[];
  readonly pieces: ReadonlySet<string>;
  readonly unread: readonly string[];
  readonly bytes: number;
}

/** What is in a root, with all its content handed to the writer. */
export async function scan(root: string, options: ScanOptions): Promise<Scanned> {
  const entries = new Map<string, Entry>();
  const pieces = new Set<string>();
  let bytes = 0;
  const { exclusion, slice } = options;
  const leaveUnread = (path: string): void => {
    entries.set(path, { kind: "unread", path });
  };
  await walk(root, {
    exclusion,
    slice,
    leave: (path, why) => {
      if (why === "unread") leaveUnread(path);
    },
    visit: async (found, at) => {
      const entry = await toEntry(found, at, options);
      if (entry === "gone") return;
      if (entry === "unread") return leaveUnread(found.path);
      entries.set(found.path, entry);
      if (entry.kind !== "file") return;
      bytes += entry.size;
      options.progress.file(entry.size);
      for (const piece of toPieces(entry)) pieces.add(piece);
    },
  });
  entries.delete("");
  const sorted = [...entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  const unread = sorted.filter((entry) => entry.kind === "unread").map((entry) => entry.path);
  return { entries: sorted, pieces, unread, bytes };
}

async function toEntry(found: Found, at: string, options: ScanOptions): Promise<Entry | "gone" | "unread"> {
  const { path } = found;
  if (found.kind === "symlink") return found;
  if (found.kind === "directory") return { kind: "directory", path, mode: found.stat.mode & MODE_BITS };
  const known = options.cache.find(path, found.stat);
  if (known !== undefined && isStored(known, found.stat.size, options.writer)) {
    return toFile(path, found.stat, known, found.stat.size);
  }
  if (found.stat.size > FILE_LIMIT) return "unread";
  const { slice, slab, writer } = options;
  const read = await readContent(at, { slice, slab, take: (sha256, bytes) => writer.add({ sha256, bytes }) });
  if (typeof read === "string") return read;
  options.progress.read(read.size);
  if (read.stable) options.cache.keep(path, read.stat, read.content);
  return toFile(path, read.stat, read.content, read.size);
}

/** The cache knows what a file holds, not whether this storage has it. */
function isStored(content: Content, size: number, writer: PackWriter): boolean {
  if (size === 0) return true;
  return (content.pieces ?? [content.sha256]).every((piece) => writer.has(piece));
}

function toFile(path: string, stat: Stats, content: Content, size: number): Entry {
  return {
    kind: "file",
    path,
    mode: stat.mode & MODE_BITS,
    size,
    mtime: Math.round(stat.mtimeMs),
    ...content,
  };
}
