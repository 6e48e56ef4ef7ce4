import type { Stats } from "node:fs";
import { SluiceError } from "../../contract/index.ts";
import { withFileErrors } from "../host/files/open-file.ts";
import { Slice } from "../host/time-slice.ts";
import { record, untilRecorded } from "./collect.ts";
import { Progress, readContent, Slab, type Content } from "./content.ts";
import { DEFAULT_EXCLUDES, Exclusion, toPatterns } from "./exclusion.ts";
import {
  demandRootNames,
  MODE_BITS,
  toManifest,
  toManifestKey,
  toPages,
  toPieces,
  type Entry,
  type ManifestRoot,
} from "./manifest.ts";
import type { CheckpointOptions, CheckpointTaken } from "./port.ts";
import type { CheckpointStore } from "./records.ts";
import { StatCache } from "./stat-cache.ts";
import { PackWriter } from "./storage/pack.ts";
import { openRoots, toShownPath, walk, type Found } from "./walk.ts";

/** Stores new content, then the manifest, and the record last: a checkpoint exists as a whole or not at all. */
export function takeCheckpoint(store: TakeStore, options: CheckpointOptions): Promise<Taken> {
  demandRootNames(options.roots);
  return untilRecorded(() => takeOnce(store, options));
}

type TakeStore = Omit<CheckpointStore, "records"> & {
  readonly records: Pick<CheckpointStore["records"], "add" | "remove">;
};
type Taken = CheckpointTaken & { readonly pieces: ReadonlySet<string> };

/** Undefined where objects were collected meanwhile. */
async function takeOnce(store: TakeStore, options: CheckpointOptions): Promise<Taken | undefined> {
  const roots = await openRoots(options.roots, { never: store.never });
  await store.index.refresh();
  const begun = Date.now();
  const writer = new PackWriter(store.storage, (piece) => store.index.has(piece));
  const slice = new Slice({ signal: options.signal });
  const slab = new Slab();
  const progress = new Progress(options.onProgress);
  const parts = new Map<string, ManifestRoot>();
  const pieces = new Set<string>();
  const unread: string[] = [];
  let sizeBytes = 0;
  try {
    for (const root of roots) {
      const exclude = toPatterns(root.name, options.exclude ?? DEFAULT_EXCLUDES);
      const cache = await StatCache.load(store.cacheFolder, root.path);
      const exclusion = new Exclusion(root.name, exclude, root.holes);
      const found = await withFileErrors(
        (failed) => toShownPath(root, failed),
        () => scan(root.path, { exclusion, cache, writer, slice, slab, progress }),
      );
      const pages = toPages(found.entries);
      for (const page of pages) await writer.add(page, { page: true });
      parts.set(root.name, { exclude, pages: pages.map((page) => page.sha256) });
      for (const piece of [...found.pieces, ...pages.map((page) => page.sha256)]) pieces.add(piece);
      unread.push(...found.unread.map((path) => `${root.name}/${path}`));
      sizeBytes += found.bytes;
      await cache.save();
    }
    options.signal?.throwIfAborted();
    const { hash, objects, bytes } = await publish(store, writer, parts);
    const { parentId, comment, agent: agentType, model, sessionId, nativeSessionId } = options;
    const given = { parentId, comment, agentType, model, sessionId, nativeSessionId };
    const info = await record(store, { hash, pieces, begun }, () =>
      store.records.add({ hash, sizeBytes, ...given }),
    );
    if (info === undefined) return undefined;
    progress.report();
    const { files, filesRead, bytesRead } = progress;
    // The record, and the entry in the session's list.
    const objectsWritten = objects + (sessionId === undefined ? 1 : 2);
    const work = { files, filesRead, bytesRead, objectsWritten, bytesWritten: bytes };
    return { info, work, unread, pieces };
  } catch (error) {
    await writer.settle();
    throw options.signal?.aborted && !(error instanceof SluiceError) ? options.signal.reason : error;
  }
}

/** Writes the last packs, their index and the manifest. Returns its hash, and the count of all written objects. */
export async function publish(
  { index, storage }: Pick<CheckpointStore, "index" | "storage">,
  writer: PackWriter,
  parts: ReadonlyMap<string, ManifestRoot>,
): Promise<{ hash: string; objects: number; bytes: number }> {
  const packs = await writer.finish();
  let { objects, bytes } = writer;
  if (packs.length > 0) {
    bytes += (await index.publish(packs)).bytes;
    objects += 1;
  }
  const manifest = toManifest(parts);
  if (await storage.putIfAbsent(toManifestKey(manifest.hash), manifest.bytes)) {
    objects += 1;
    bytes += manifest.bytes.length;
  }
  return { hash: manifest.hash, objects, bytes };
}

/** A sparse file can claim any size; no real file is larger than this. */
const FILE_LIMIT = 16 * 1024 * 1024 * 1024;

interface ScanOptions {
  readonly exclusion: Exclusion;
  readonly cache: StatCache;
  readonly writer: PackWriter;
  readonly slice: Slice;
  readonly slab: Slab;
  readonly progress: Progress;
}

interface Scanned {
  /** Sorted by path. */
  readonly entries: readonly Entry[];
  readonly pieces: ReadonlySet<string>;
  readonly unread: readonly string[];
  readonly bytes: number;
}

/** Lists the entries of a root, and gives all content to the writer. */
async function scan(root: string, options: ScanOptions): Promise<Scanned> {
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
      const entry = await readEntry(found, at, options);
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

async function readEntry(found: Found, at: string, options: ScanOptions): Promise<Entry | "gone" | "unread"> {
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

/** Whether this storage has the content. The cache knows only the hashes of a file, and other storages use it too. */
function isStored(content: Content, size: number, writer: PackWriter): boolean {
  if (size === 0) return true;
  return (content.pieces ?? [content.sha256]).every((piece) => writer.has(piece));
}

function toFile(path: string, stat: Stats, content: Content, size: number): Entry {
  const mode = stat.mode & MODE_BITS;
  return { kind: "file", path, mode, size, mtime: Math.round(stat.mtimeMs), ...content };
}
