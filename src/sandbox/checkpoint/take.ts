import { SluiceError } from "../../contract/index.ts";
import { withFileErrors } from "../host/fileErrors.ts";
import type { Catalog } from "./catalog.ts";
import { rescue } from "./condemned.ts";
import type { ContentIndex } from "./contentIndex.ts";
import { DEFAULT_EXCLUDES, Exclusion, toPatterns } from "./exclusion.ts";
import { demandRootNames, toManifest, toManifestKey, type ManifestRoot } from "./manifest.ts";
import { PackWriter } from "./packWriter.ts";
import { toPages } from "./page.ts";
import type { CheckpointOptions, CheckpointStorage, CheckpointTaken } from "./port.ts";
import { Progress } from "./progress.ts";
import { Slab } from "./readFile.ts";
import { openRoots } from "./rootFolder.ts";
import { scan } from "./scan.ts";
import { Slice } from "./slice.ts";
import { StatCache } from "./statCache.ts";

export interface Shelf {
  readonly storage: CheckpointStorage;
  readonly cacheFolder: string;
  readonly index: ContentIndex;
  readonly catalog: Catalog;
  /** Host folders that no checkpoint may hold. */
  readonly never: readonly string[];
}

/** Walks, stores what is new, then the manifest, and the record last: whatever dies on the way leaves no half. */
export async function takeCheckpoint(shelf: Shelf, options: CheckpointOptions): Promise<CheckpointTaken> {
  demandRootNames(options.roots);
  const roots = await openRoots(options.roots, { never: shelf.never });
  await shelf.index.refresh();
  const begun = Date.now();
  const writer = new PackWriter(shelf.storage, (piece) => shelf.index.has(piece));
  const slice = new Slice(options.signal);
  const slab = new Slab();
  const progress = new Progress(options.onProgress);
  const parts = new Map<string, ManifestRoot>();
  const pieces = new Set<string>();
  const unread: string[] = [];
  let sizeBytes = 0;
  try {
    for (const root of roots) {
      const exclude = toPatterns(root.name, options.exclude ?? DEFAULT_EXCLUDES);
      const cache = await StatCache.load(shelf.cacheFolder, root.path);
      const exclusion = new Exclusion(root.name, exclude, root.holes);
      const found = await withFileErrors(root.path, () =>
        scan(root.path, { exclusion, cache, writer, slice, slab, progress }),
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
    const packs = await writer.finish();
    let { objects, bytes } = writer;
    if (packs.length > 0) {
      bytes += (await shelf.index.publish(packs)).bytes;
      objects += 1;
    }
    const manifest = toManifest(parts);
    if (await shelf.storage.putIfAbsent(toManifestKey(manifest.hash), manifest.bytes)) {
      objects += 1;
      bytes += manifest.bytes.length;
    }
    await rescue(shelf, { hash: manifest.hash, pieces, begun });
    const { parentId, comment, agent: agentType, model, sessionId, nativeSessionId } = options;
    const given = { parentId, comment, agentType, model, sessionId, nativeSessionId };
    const info = await shelf.catalog.add({ hash: manifest.hash, sizeBytes, ...given });
    progress.end();
    const { files, filesRead, bytesRead } = progress;
    objects += sessionId === undefined ? 1 : 2;
    return {
      info,
      work: { files, filesRead, bytesRead, objectsWritten: objects, bytesWritten: bytes },
      unread,
    };
  } catch (error) {
    await writer.settle();
    throw options.signal?.aborted && !(error instanceof SluiceError) ? options.signal.reason : error;
  }
}
