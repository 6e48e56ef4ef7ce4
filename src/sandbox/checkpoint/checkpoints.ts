import { SluiceError } from "../../contract/index.ts";
import { adoptBundle, sendBundle } from "./bundle.ts";
import { collect } from "./collect.ts";
import { ContentsReader } from "./viewer.ts";
import type { CheckpointInfo, Checkpoints, CheckpointStorage } from "./port.ts";
import { CheckpointRecords, type CheckpointStore } from "./records.ts";
import { demandCheckpoint, restoreCheckpoint } from "./restore/restore.ts";
import { ContentIndex } from "./storage/content-index.ts";
import { takeCheckpoint } from "./take.ts";

export interface CheckpointsOptions {
  readonly storage: CheckpointStorage;
  /** A folder for caches on this host. Its loss costs time only. */
  readonly cacheFolder: string;
  /** Host folders that no checkpoint may hold, even if they lie in a root: the server's data. */
  readonly never?: readonly string[] | undefined;
}

const LIST_DEFAULT = 100;

/** Checkpoints of host folders, content-addressed: each stores new content only. */
export function createCheckpoints(options: CheckpointsOptions): Checkpoints {
  const { storage, cacheFolder } = options;
  const store: CheckpointStore = {
    storage,
    cacheFolder,
    index: new ContentIndex(storage, cacheFolder),
    records: new CheckpointRecords(storage),
    never: [cacheFolder, ...(storage.folder === undefined ? [] : [storage.folder]), ...(options.never ?? [])],
  };
  // A collection must not delete objects that a checkpoint in progress builds on.
  const gate = new Gate();
  const { records } = store;
  const reader = new ContentsReader(store, (work) => gate.together(work));
  const get: Checkpoints["get"] = async (id, { sessionId } = {}) =>
    id === "latest" ? records.latest(sessionId) : records.get(id);
  return {
    checkpoint: (request) =>
      gate.together(async () => {
        const { info, work, unread } = await takeCheckpoint(store, request);
        return { info, work, unread };
      }),
    adopt: (bundle, request) => gate.together(() => adoptBundle(store, bundle, request)),
    send: (id, target) =>
      gate.together(async () => {
        const info = await demandCheckpoint(store, id, undefined);
        await sendBundle(store, info, target);
        return info;
      }),
    restore: (id, request) =>
      gate.together(async () =>
        restoreCheckpoint(store, await demandCheckpoint(store, id, request.sessionId), request),
      ),
    list: async ({ limit = LIST_DEFAULT, ...query } = {}) =>
      records.list({ limit: demandLimit(limit), ...query }),
    get,
    contents: async (id, request) => {
      const info = await get(id, request);
      return info && reader.open(info);
    },
    lineage: (id) => readLineage(records, id),
    remove: (id) => records.remove(id),
    gc: (request = {}) => gate.alone(() => collect(store, request)),
  };
}

async function readLineage(records: CheckpointRecords, id: string): Promise<CheckpointInfo[]> {
  const line: CheckpointInfo[] = [];
  const seen = new Set<string>();
  for (let next: string | undefined = id; next !== undefined && !seen.has(next);) {
    seen.add(next);
    const info: CheckpointInfo | undefined = await records.get(next);
    if (info !== undefined) line.push(info);
    next = info?.parentId;
  }
  return line;
}

function demandLimit(limit: number): number {
  if (Number.isInteger(limit) && limit > 0) return limit;
  throw new SluiceError("invalid_request", "The limit of a list is a whole number above 0.");
}

/** Runs work together with other work, or alone. */
class Gate {
  #inside = 0;
  #alone: Promise<void> = Promise.resolve();
  #empty: (() => void) | undefined;

  async together<T>(work: () => Promise<T>): Promise<T> {
    for (let before; before !== this.#alone;) {
      before = this.#alone;
      await before;
    }
    this.#inside += 1;
    try {
      return await work();
    } finally {
      this.#inside -= 1;
      if (this.#inside === 0) this.#empty?.();
    }
  }

  alone<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#alone;
    const done = this.#afterAll(before, work);
    this.#alone = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  async #afterAll<T>(before: Promise<void>, work: () => Promise<T>): Promise<T> {
    await before;
    if (this.#inside > 0) await new Promise<void>((empty) => (this.#empty = empty));
    this.#empty = undefined;
    return work();
  }
}
