import { SluiceError } from "../../contract/index.ts";
import { parseManifest, readEntries, toManifestKey, toPieces } from "./manifest.ts";
import type { CheckpointStorage, Collected } from "./port.ts";
import type { CheckpointStore } from "./records.ts";
import { sweepStatCaches } from "./stat-cache.ts";
import { PieceReader } from "./storage/content-index.ts";
import { PackWriter, toPackKey, type WrittenPack } from "./storage/pack.ts";

const GRACE_MS = 60 * 60 * 1000;

/**
 * Finds objects that no checkpoint needs. They leave the index at once, so that no new checkpoint uses them. They are
 * deleted only when their mark is old enough: another process may be writing a checkpoint that needs them.
 */
export async function collect(
  store: CheckpointStore,
  options: { graceMs?: number | undefined; signal?: AbortSignal | undefined },
): Promise<Collected> {
  const { storage, index } = store;
  const graceMs = options.graceMs ?? GRACE_MS;
  await index.refreshFromPacks();
  // The list comes before the records are read, so objects of a later checkpoint are not in it.
  const stored = [...(await storage.list("packs/")), ...(await storage.list("manifests/"))];
  const needed = await findNeeded(store, options.signal);
  const kept = await keepPacks(store, needed.pieces, options.signal);
  await index.replace(kept.packs);
  const live = new Set([...kept.packs.map((pack) => toPackKey(pack.sha256)), ...needed.manifests]);
  const dead = new Set(stored.filter((key) => !live.has(key)));
  const marks = await listMarks(storage);
  const marked = new Map(marks.map((mark) => [mark.key, mark]));
  let deleted = 0;
  for (const { key, markKey, at } of marks) {
    const due = dead.has(key) && Date.now() - at >= graceMs;
    if (due) await storage.delete(key);
    // The mark is deleted with its object. A mark is also deleted if its object is needed again or gone.
    if (due || !dead.has(key)) await storage.delete(markKey);
    if (due) dead.delete(key);
    deleted += due ? 1 : 0;
  }
  for (const key of dead) {
    if (graceMs === 0) await storage.delete(key);
    else if (!marked.has(key)) await mark(storage, key);
  }
  await dropOrphans(store);
  await sweepStatCaches(store.cacheFolder);
  if (graceMs === 0) deleted += dead.size;
  return { deleted, marked: graceMs === 0 ? 0 : dead.size, repacked: kept.repacked };
}

async function findNeeded(
  store: CheckpointStore,
  signal: AbortSignal | undefined,
): Promise<{ pieces: ReadonlySet<string>; manifests: ReadonlySet<string> }> {
  const reader = new PieceReader(store.index);
  const pieces = new Set<string>();
  const manifests = new Set<string>();
  for (const key of await store.storage.list("checkpoints/")) {
    signal?.throwIfAborted();
    const info = await store.records.get(key.slice("checkpoints/".length, -".json".length));
    if (info === undefined || manifests.has(toManifestKey(info.hash))) continue;
    manifests.add(toManifestKey(info.hash));
    const manifest = parseManifest(info.hash, await store.storage.get(toManifestKey(info.hash)));
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

/** The packs to keep. If less than half of a pack's pieces are needed, those are written to a new pack. */
async function keepPacks(
  { storage, index }: CheckpointStore,
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

/** Deletes entries of a session's list whose checkpoint has no record. */
async function dropOrphans({ storage, records }: CheckpointStore): Promise<void> {
  const ids = new Set(await storage.list("checkpoints/"));
  for (const key of await storage.list("sessions/")) {
    const id = key.slice(key.lastIndexOf("/") + 1);
    if (ids.has(`checkpoints/${id}.json`)) continue;
    // A new entry stays: it is written a moment before its record.
    if (Date.now() - toTime(id) > GRACE_MS && (await records.get(id)) === undefined)
      await storage.delete(key);
  }
}

/** The time in an id, which begins with it. */
function toTime(id: string): number {
  return Number.parseInt(id.slice("ckpt_".length, "ckpt_".length + 9), 36);
}

const PREFIX = "condemned/";
/** A checkpoint that took longer than this may have lost objects, and fails. It is far less than a collector's grace. */
const LONG_MS = 20 * 60 * 1000;

/** A collector's mark on an unneeded object, which is deleted when the mark is old enough. */
interface Mark {
  /** The storage key of the mark itself. */
  readonly markKey: string;
  /** The storage key of the unneeded object. */
  readonly key: string;
  readonly at: number;
}

async function listMarks(storage: CheckpointStorage): Promise<Mark[]> {
  const markKeys = await storage.list(PREFIX);
  return markKeys.map((markKey) => {
    const [time = "", ...names] = markKey.slice(PREFIX.length).split("!");
    return { markKey, key: names.join("/"), at: Number.parseInt(time, 36) };
  });
}

async function mark(storage: CheckpointStorage, key: string): Promise<void> {
  await storage.put(`${PREFIX}${Date.now().toString(36)}!${key.replaceAll("/", "!")}`, new Uint8Array());
}

/** Takes the marks off the objects of a new checkpoint: a collector of another process may have run meanwhile. */
export async function rescue(
  store: Pick<CheckpointStore, "index" | "storage">,
  needed: { hash: string; pieces: ReadonlySet<string>; begun: number },
): Promise<void> {
  const marks = await listMarks(store.storage);
  if (marks.length === 0) return;
  const packs = new Set([...needed.pieces].map((piece) => store.index.packOf(piece) ?? ""));
  const keys = new Set([...packs].filter(Boolean).map(toPackKey)).add(toManifestKey(needed.hash));
  const ours = marks.filter((mark) => keys.has(mark.key));
  if (ours.length === 0) return;
  if (Date.now() - needed.begun > LONG_MS) {
    const detail =
      "The checkpoint took so long that some of its objects may have been collected. Take it again.";
    throw new SluiceError("timeout", detail);
  }
  const lost = [...store.index.packs()].filter(([name]) => packs.has(name));
  await store.index.publish(lost.map(([sha256, pieces]) => ({ sha256, pieces })));
  for (const { markKey } of ours) await store.storage.delete(markKey);
}
