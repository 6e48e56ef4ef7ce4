import { SluiceError } from "../../contract/index.ts";
import { parseManifest, readEntries, toManifestKey, toPieces } from "./manifest.ts";
import type { CheckpointStorage, Collected } from "./port.ts";
import {
  announced,
  deleteMarked,
  dropAnnouncements,
  listMarks,
  mark,
  type Mark,
  settledMarks,
  TURN_MS,
} from "./marks.ts";
import type { CheckpointRecords, CheckpointStore } from "./records.ts";
import { sweepStatCaches } from "./stat-cache.ts";
import { PieceReader } from "./storage/content-index.ts";
import { PackWriter, toPackKey, type WrittenPack } from "./storage/pack.ts";

const GRACE_MS = 60 * 60 * 1000;
/** After this time the mark of a deleted object may be gone, so that each object of a checkpoint is looked for. */
const LONG_MS = GRACE_MS / 2;

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
  const needed = new Needed(store);
  const { pieces, manifests } = await needed.look(options.signal);
  const packs = new Map([...index.packs()].map(([name, held]) => [toPackKey(name), held]));
  const kept = await keepPacks(store, pieces, options.signal);
  await index.replace(kept.packs);
  const live = new Set([...kept.packs.map((pack) => toPackKey(pack.sha256)), ...manifests]);
  const dead = new Set(stored.filter((key) => !live.has(key)));
  const isDue = ({ at }: { at: number }): boolean => Date.now() - at >= graceMs;
  // The mark of a deleted object stays for a grace; the mark of a needed one goes.
  for (const each of await listMarks(storage))
    if (live.has(each.key) || (!dead.has(each.key) && isDue(each))) await storage.delete(each.markKey);
  let deleted = 0;
  if (graceMs === 0) {
    // Nobody else uses the storage.
    for (const key of dead) await storage.delete(key);
    for (const { markKey } of await listMarks(storage)) await storage.delete(markKey);
    deleted = dead.size;
    dead.clear();
  } else {
    const deletion = { storage, needed, packs, dead, isDue };
    deleted = await deleteDue(deletion);
    const marked = new Set((await listMarks(storage)).map(({ key }) => key));
    for (const key of dead) if (!marked.has(key)) await mark(storage, key);
  }
  await dropAnnouncements(storage);
  await dropOrphans(store);
  await sweepStatCaches(store.cacheFolder);
  return { deleted, marked: dead.size, repacked: kept.repacked };
}

interface Deletion {
  readonly storage: CheckpointStorage;
  readonly needed: Needed;
  /** The pieces of each known pack. */
  readonly packs: ReadonlyMap<string, readonly string[]>;
  /** The unneeded objects. Those that are deleted leave it. */
  readonly dead: Set<string>;
  readonly isDue: (mark: Mark) => boolean;
}

/**
 * Deletes objects with an old mark; returns how many. Records and marks are read after each announcement: a checkpoint
 * whose record comes later sees the announcement, and waits.
 */
async function deleteDue({ storage, needed, packs, dead, isDue }: Deletion): Promise<number> {
  const before = dead.size;
  const late: Found[] = [];
  const isNeeded = (key: string): boolean =>
    late.some(
      ({ manifests, pieces }) => manifests.has(key) || packs.get(key)?.some((piece) => pieces.has(piece)),
    );
  const look = async (): Promise<Mark[]> =>
    (await listMarks(storage)).filter((each) => dead.has(each.key) && isDue(each) && !isNeeded(each.key));
  while ((await look()).length > 0) {
    await announced(storage, async () => {
      const deadline = performance.now() + TURN_MS;
      late.push(await needed.look(undefined));
      for (const each of await look()) {
        if (performance.now() > deadline) return;
        await deleteMarked(storage, each);
        dead.delete(each.key);
      }
    });
  }
  return before - dead.size;
}

interface Found {
  readonly pieces: ReadonlySet<string>;
  readonly manifests: ReadonlySet<string>;
}

/** The objects that checkpoints need. */
class Needed {
  readonly #store: CheckpointStore;
  readonly #seen = new Set<string>();

  constructor(store: CheckpointStore) {
    this.#store = store;
  }

  /** The objects of the records that have been written since the last look. */
  async look(signal: AbortSignal | undefined): Promise<Found> {
    const { storage, index, records } = this.#store;
    const reader = new PieceReader(index);
    const pieces = new Set<string>();
    const manifests = new Set<string>();
    for (const key of await storage.list("checkpoints/")) {
      signal?.throwIfAborted();
      if (this.#seen.has(key)) continue;
      this.#seen.add(key);
      const info = await records.get(key.slice("checkpoints/".length, -".json".length));
      if (info === undefined || manifests.has(toManifestKey(info.hash))) continue;
      manifests.add(toManifestKey(info.hash));
      const manifest = parseManifest(info.hash, await storage.get(toManifestKey(info.hash)));
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

interface Taking {
  readonly hash: string;
  readonly pieces: ReadonlySet<string>;
  /** The time at which the index was read. */
  readonly begun: number;
}

/**
 * Writes the record of a checkpoint, and checks that its objects outlive it: a collector of another process may have
 * marked or deleted them meanwhile. Undefined where some are gone. Then there is no record, and the checkpoint has to be
 * taken again (docs/decisions/0130).
 */
export async function record<T extends { readonly id: string }>(
  {
    storage,
    index,
    records,
  }: Pick<CheckpointStore, "index" | "storage"> & {
    readonly records: Pick<CheckpointRecords, "remove">;
  },
  { hash, pieces, begun }: Taking,
  add: () => Promise<T>,
): Promise<T | undefined> {
  const packs = new Set([...pieces].map((piece) => index.packOf(piece) ?? ""));
  const keys = new Set([...packs].filter(Boolean).map(toPackKey)).add(toManifestKey(hash));
  const info = await add();
  const gone = new Set<string>();
  try {
    const marks = await settledMarks(storage, keys);
    const isLong = Date.now() - begun > LONG_MS;
    for (const key of isLong ? keys : new Set(marks.map((each) => each.key)))
      if (!(await storage.has(key))) gone.add(key);
    if (gone.size === 0) {
      const toPublish = [...index.packs()].filter(([name]) =>
        marks.some(({ key }) => key === toPackKey(name)),
      );
      if (toPublish.length > 0)
        await index.publish(toPublish.map(([sha256, own]) => ({ sha256, pieces: own })));
      for (const { markKey } of marks) await storage.delete(markKey);
      return info;
    }
    // The next try finds the objects missing, and writes them again. Without a mark nobody deletes them.
    for (const { key, markKey } of marks) if (gone.has(key)) await storage.delete(markKey);
  } catch (error) {
    await records.remove(info.id);
    throw error;
  }
  await records.remove(info.id);
  const left = [...index.packs()].filter(([name]) => !gone.has(toPackKey(name)));
  await index.replace(left.map(([sha256, own]) => ({ sha256, pieces: own })));
  return undefined;
}

/** How often a checkpoint is taken before its collisions with collectors are an error. */
const TRIES = 5;

/** Takes a checkpoint again whose objects were collected meanwhile. */
export async function untilRecorded<T>(take: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const taken = await take();
    if (taken !== undefined) return taken;
  }
  const detail = "Objects of the checkpoint were collected while it was taken. Take it again.";
  throw new SluiceError("timeout", detail);
}
