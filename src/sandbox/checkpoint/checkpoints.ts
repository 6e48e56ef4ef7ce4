import { SluiceError } from "../../contract/index.ts";
import { Catalog } from "./catalog.ts";
import { collect } from "./collect.ts";
import { ContentIndex } from "./contentIndex.ts";
import { Gate } from "./gate.ts";
import type { CheckpointInfo, Checkpoints, CheckpointStorage } from "./port.ts";
import { demandCheckpoint, restoreCheckpoint } from "./restore.ts";
import { takeCheckpoint, type Shelf } from "./take.ts";

export interface CheckpointsOptions {
  readonly storage: CheckpointStorage;
  /** On this host, for what spares work the next time; it may be lost at any moment. */
  readonly cacheFolder: string;
  /** Host folders that no checkpoint may hold although they may lie in a root: our own data. */
  readonly never?: readonly string[] | undefined;
}

const LIST_DEFAULT = 100;

/** Snapshots of host folders: content-addressed, so that each costs what is new in it. */
export function createCheckpoints(options: CheckpointsOptions): Checkpoints {
  const { storage, cacheFolder } = options;
  const shelf: Shelf = {
    storage,
    cacheFolder,
    index: new ContentIndex(storage, cacheFolder),
    catalog: new Catalog(storage),
    never: [cacheFolder, ...(storage.folder === undefined ? [] : [storage.folder]), ...(options.never ?? [])],
  };
  // What a collector would delete may be what a checkpoint builds on at that moment.
  const gate = new Gate();
  const { catalog } = shelf;
  return {
    checkpoint: (request) => gate.together(() => takeCheckpoint(shelf, request)),
    restore: (id, request) =>
      gate.together(async () =>
        restoreCheckpoint(shelf, await demandCheckpoint(shelf, id, request.sessionId), request),
      ),
    list: async ({ limit = LIST_DEFAULT, sessionId } = {}) =>
      catalog.list({ limit: demandLimit(limit), sessionId }),
    get: async (id, { sessionId } = {}) => (id === "latest" ? catalog.latest(sessionId) : catalog.get(id)),
    lineage: (id) => readLineage(catalog, id),
    remove: (id) => catalog.remove(id),
    gc: (request = {}) => gate.alone(() => collect(shelf, request)),
  };
}

async function readLineage(catalog: Catalog, id: string): Promise<CheckpointInfo[]> {
  const line: CheckpointInfo[] = [];
  const seen = new Set<string>();
  for (let next: string | undefined = id; next !== undefined && !seen.has(next);) {
    seen.add(next);
    const info: CheckpointInfo | undefined = await catalog.get(next);
    if (info !== undefined) line.push(info);
    next = info?.parentId;
  }
  return line;
}

function demandLimit(limit: number): number {
  if (Number.isInteger(limit) && limit > 0) return limit;
  throw new SluiceError("invalid_request", "The limit of a list is a whole number above 0.");
}
