import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Checkpoints, CheckpointStorage } from "../../sandbox/checkpoint/port.ts";
import { createCheckpoints } from "../../sandbox/index.ts";

export interface CheckpointStoresOptions {
  readonly dataDir: string;
  readonly storage: CheckpointStorage;
  /** The storage of a shelf; undefined for a part of `storage`. */
  readonly find?: ((shelf: string) => CheckpointStorage | undefined) | undefined;
}

/** Returns the checkpoints of a shelf, or of all sessions without one. */
export function createCheckpointStores({
  dataDir,
  storage,
  find,
}: CheckpointStoresOptions): (shelf?: string) => Checkpoints {
  const known = new Map<string, { storage: CheckpointStorage | undefined; checkpoints: Checkpoints }>();
  const open = (storage: CheckpointStorage, cache: string): Checkpoints =>
    createCheckpoints({ storage, cacheFolder: join(dataDir, cache), never: [dataDir] });
  const common = open(storage, "checkpoint-cache");
  return (shelf) => {
    if (shelf === undefined) return common;
    const own = find?.(shelf);
    const kept = known.get(shelf);
    if (kept && kept.storage === own) return kept.checkpoints;
    const cache = join("shelf-cache", createHash("sha256").update(shelf).digest("hex").slice(0, 16));
    const checkpoints = open(own ?? partOf(storage, `shelves/${shelf}/`), cache);
    known.set(shelf, { storage: own, checkpoints });
    return checkpoints;
  };
}

function partOf(storage: CheckpointStorage, prefix: string): CheckpointStorage {
  return {
    put: (key, bytes) => storage.put(prefix + key, bytes),
    putIfAbsent: (key, bytes) => storage.putIfAbsent(prefix + key, bytes),
    get: (key) => storage.get(prefix + key),
    has: (key) => storage.has(prefix + key),
    list: async (from) => (await storage.list(prefix + from)).map((key) => key.slice(prefix.length)),
    delete: (key) => storage.delete(prefix + key),
    ...(storage.folder === undefined ? {} : { folder: storage.folder }),
  };
}
