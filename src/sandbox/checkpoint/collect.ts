import { condemn, listMarks } from "./condemned.ts";
import { parseManifest, readEntries, toManifestKey } from "./manifest.ts";
import { PackWriter, toPackKey, type WrittenPack } from "./packWriter.ts";
import { toPieces } from "./page.ts";
import { PieceReader } from "./pieceReader.ts";
import type { Collected } from "./port.ts";
import { sweepStatCaches } from "./statCache.ts";
import type { Shelf } from "./take.ts";

const GRACE_MS = 60 * 60 * 1000;

/**
 * Finds what no checkpoint needs. It leaves the index at once, so that no new checkpoint builds on it, and goes
 * when its mark is old enough: another process may be writing one that needs it right now.
 */
export async function collect(
  shelf: Shelf,
  options: { graceMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<Collected> {
  const { storage, index } = shelf;
  const graceMs = options.graceMs ?? GRACE_MS;
  await index.refreshFromPacks();
  // Listed before the records are read: what is stored after this is not looked at.
  const stored = [...(await storage.list("packs/")), ...(await storage.list("manifests/"))];
  const needed = await findNeeded(shelf, options.signal);
  const kept = await keepPacks(shelf, needed.pieces, options.signal);
  await index.replace(kept.packs);
  const live = new Set([...kept.packs.map((pack) => toPackKey(pack.sha256)), ...needed.manifests]);
  const dead = new Set(stored.filter((key) => !live.has(key)));
  const marks = await listMarks(storage);
  const marked = new Map(marks.map((mark) => [mark.key, mark]));
  let deleted = 0;
  for (const { key, mark, at } of marks) {
    const due = dead.has(key) && Date.now() - at >= graceMs;
    if (due) await storage.delete(key);
    // A mark on what lives again, or is gone, means nothing.
    if (due || !dead.has(key)) await storage.delete(mark);
    if (due) dead.delete(key);
    deleted += due ? 1 : 0;
  }
  for (const key of dead) {
    if (graceMs === 0) await storage.delete(key);
    else if (!marked.has(key)) await condemn(storage, key);
  }
  await dropOrphans(shelf);
  await sweepStatCaches(shelf.cacheFolder);
  if (graceMs === 0) deleted += dead.size;
  return { deleted, marked: graceMs === 0 ? 0 : dead.size, repacked: kept.repacked };
}

async function findNeeded(
  shelf: Shelf,
  signal: AbortSignal | undefined,
): Promise<{ pieces: ReadonlySet<string>; manifests: ReadonlySet<string> }> {
  const reader = new PieceReader(shelf.index);
  const pieces = new Set<string>();
  const manifests = new Set<string>();
  for (const key of await shelf.storage.list("checkpoints/")) {
    signal?.throwIfAborted();
    const info = await shelf.catalog.get(key.slice("checkpoints/".length, -".json".length));
    if (info === undefined || manifests.has(toManifestKey(info.hash))) continue;
    manifests.add(toManifestKey(info.hash));
    const manifest = parseManifest(info.hash, await shelf.storage.get(toManifestKey(info.hash)));
    for (const root of manifest.roots.values()) {
      const pages = await reader.readAll(root.pages);
      for (const page of root.pages) pieces.add(page);
      for (const entry of readEntries(root, (page) => pages.get(page))) {
        if (entry.kind === "file") for (const piece of toPieces(entry)) pieces.add(piece);
      }
    }
  }
  return { pieces, manifests };
}

/** Every needed piece ends up in one pack; packs of which less than half is needed are written anew. */
async function keepPacks(
  { storage, index }: Shelf,
  needed: ReadonlySet<string>,
  signal: AbortSignal | undefined,
): Promise<{ packs: WrittenPack[]; repacked: number }> {
  const whole: WrittenPack[] = [];
  const held = new Set<string>();
  const sparse: { sha256: string; live: string[] }[] = [];
  for (const [sha256, pieces] of index.packs()) {
    const live = pieces.filter((piece) => needed.has(piece) && !held.has(piece));
    if (live.length === 0) continue;
    if (live.length * 2 < pieces.length) {
      sparse.push({ sha256, live });
      continue;
    }
    whole.push({ sha256, pieces });
    for (const piece of pieces) held.add(piece);
  }
  const writer = new PackWriter(storage, (piece) => held.has(piece));
  try {
    for (const { sha256, live } of sparse) {
      signal?.throwIfAborted();
      const pack = await index.readPack(sha256);
      for (const piece of live) {
        const bytes = pack.get(piece);
        if (bytes) await writer.add({ sha256: piece, bytes });
      }
    }
    return { packs: [...whole, ...(await writer.finish())], repacked: sparse.length };
  } finally {
    await writer.settle();
  }
}

/** Places in a session's list whose record was never written, or is gone. */
async function dropOrphans({ storage, catalog }: Shelf): Promise<void> {
  const ids = new Set(await storage.list("checkpoints/"));
  for (const key of await storage.list("sessions/")) {
    const id = key.slice(key.lastIndexOf("/") + 1);
    if (ids.has(`checkpoints/${id}.json`)) continue;
    // The place is taken a moment before the record is written.
    if (Date.now() - toTime(id) > GRACE_MS && (await catalog.get(id)) === undefined)
      await storage.delete(key);
  }
}

/** Ids begin with their time. */
function toTime(id: string): number {
  return Number.parseInt(id.slice("ckpt_".length, "ckpt_".length + 9), 36);
}
