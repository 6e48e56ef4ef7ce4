import { SluiceError } from "../../../contract/index.ts";
import { withFileErrors } from "../../host/files/open-file.ts";
import { OpenFolder } from "../../host/files/open-folder.ts";
import { removeEntry } from "../../host/files/remove-tree.ts";
import { Slice } from "../../host/time-slice.ts";
import type { Owner } from "../../port.ts";
import { Progress } from "../content.ts";
import { Exclusion, STAGING_PREFIX } from "../exclusion.ts";
import { demandRootNames, type Entry, parseManifest, readEntries, toManifestKey } from "../manifest.ts";
import type { CheckpointInfo, CheckpointRestored, RestoreOptions } from "../port.ts";
import type { CheckpointStore } from "../records.ts";
import { StatCache } from "../stat-cache.ts";
import { PieceReader } from "../storage/content-index.ts";
import { openRoots, toShownPath, type RootFolder } from "../walk.ts";
import { commitRestore } from "./commit.ts";
import { planRestore, type RestorePlan } from "./plan.ts";
import { StagingFolder } from "./staging-folder.ts";

interface RootRestore {
  readonly root: RootFolder;
  readonly cache: StatCache;
  readonly plan: RestorePlan;
  /** The root itself, held open, and the name of the staging folder in it. */
  readonly folder: OpenFolder;
  readonly stagingName: string;
  readonly owner: Owner | undefined;
  readonly files: number;
}

/** Reads and checks the manifest, plans, stages the missing entries, and only then changes the roots. */
export async function restoreCheckpoint(
  store: Omit<CheckpointStore, "records">,
  info: CheckpointInfo,
  options: RestoreOptions,
): Promise<CheckpointRestored> {
  demandRootNames(options.roots);
  const slice = new Slice({ signal: options.signal });
  const progress = new Progress(options.onProgress);
  const reader = new PieceReader(store.index);
  const wanted = await readWanted(store, info.hash, reader);
  const given = Object.entries(options.roots).filter(([name]) => wanted.has(name));
  const roots = await openRoots(Object.fromEntries(given), { never: store.never, make: true });
  const restores: RootRestore[] = [];
  const opened: OpenFolder[] = [];
  const staged: StagingFolder[] = [];
  try {
    for (const root of roots) {
      const folder = OpenFolder.openReal(root.path);
      opened.push(folder);
      const cache = await StatCache.load(store.cacheFolder, root.path);
      const wantedRoot = wanted.get(root.name) ?? { entries: [], exclude: [] };
      restores.push(
        await planRoot({ root, folder, cache }, wantedRoot, { owner: options.owner, slice, progress }),
      );
    }
    progress.total = restores.flatMap(({ plan }) => plan.grafts.flatMap(toFiles)).length;
    for (const restore of restores) {
      staged.push(
        await withFileErrors(
          (failed) => toShownPath(restore.root, failed),
          () => fillStaging(restore, { reader, slice, progress }),
        ),
      );
    }
    options.signal?.throwIfAborted();
    await commitAll(restores, staged);
  } finally {
    for (const staging of staged) staging.close();
    for (const { folder, stagingName } of restores) await removeEntry(folder, stagingName);
    for (const folder of opened) folder.close();
  }
  progress.report();
  return { info, work: toWork(restores, staged, progress, reader) };
}

interface WantedRoot {
  readonly entries: readonly Entry[];
  readonly exclude: readonly string[];
}

/** The entries of each root of the checkpoint, by the root's name. */
async function readWanted(
  { storage, index }: Pick<CheckpointStore, "storage" | "index">,
  hash: string,
  reader: PieceReader,
): Promise<ReadonlyMap<string, WantedRoot>> {
  const manifest = parseManifest(hash, await storage.get(toManifestKey(hash)));
  await index.refresh();
  const pages = await reader.readAll([...manifest.roots.values()].flatMap((root) => root.pages));
  return new Map(
    [...manifest.roots].map(([name, root]) => {
      const entries = readEntries(root, (page) => pages.get(page));
      return [name, { entries, exclude: root.exclude }];
    }),
  );
}

async function planRoot(
  { root, folder, cache }: Pick<RootRestore, "root" | "folder" | "cache">,
  { entries, exclude }: WantedRoot,
  options: { owner: Owner | undefined; slice: Slice; progress: Progress },
): Promise<RootRestore> {
  const { slice, progress } = options;
  await clearStaging(folder);
  const owner = options.owner ?? readOwner(folder);
  const exclusion = new Exclusion(root.name, exclude, root.holes);
  const plan = await planRestore(root.path, { wanted: entries, exclusion, cache, slice, progress });
  const files = entries.filter((entry) => entry.kind === "file").length;
  const stagingName = `${STAGING_PREFIX}${process.pid}-${Math.random().toString(36).slice(2)}`;
  return { root, cache, plan, folder, stagingName, owner, files };
}

/** Changes the roots. No signal stops it: half of a restore would be worse than all or none of it. */
async function commitAll(restores: readonly RootRestore[], staged: readonly StagingFolder[]): Promise<void> {
  const slice = new Slice();
  for (const [n, { root, plan, cache, owner }] of restores.entries()) {
    const staging = staged[n];
    if (staging)
      await withFileErrors(
        (failed) => toShownPath(root, failed),
        () => commitRestore(root.path, plan, { staging, cache, slice, owner }),
      );
    await cache.save();
  }
}

async function fillStaging(
  restore: RootRestore,
  tools: { reader: PieceReader; slice: Slice; progress: Progress },
): Promise<StagingFolder> {
  const { plan, folder, stagingName, owner } = restore;
  const { reader, ...pace } = tools;
  const made = plan.grafts.length === 0 ? undefined : folder.make(stagingName, { mode: 0o700 });
  const staging = new StagingFolder(made ?? OpenFolder.openReal(restore.root.path), { owner, ...pace });
  try {
    await staging.build(plan.grafts);
    await reader.eachOf([...staging.pieces()], (piece, bytes) => staging.fill(piece, bytes));
    await staging.check();
    return staging;
  } catch (error) {
    staging.close();
    throw error;
  }
}

/** The owner of restored files: for a server that runs as root the owner of the root folder, which is the agent's user. */
function readOwner(root: OpenFolder): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = root.stat();
  return { uid, gid };
}

async function clearStaging(root: OpenFolder): Promise<void> {
  for (const name of root.names()) if (name.startsWith(STAGING_PREFIX)) await removeEntry(root, name);
}

function toFiles(graft: RestorePlan["grafts"][number]): unknown[] {
  return graft.entries.filter((entry) => entry.kind === "file");
}

function toWork(
  restores: readonly RootRestore[],
  staged: readonly StagingFolder[],
  progress: Progress,
  reader: PieceReader,
): CheckpointRestored["work"] {
  return {
    files: sum(restores.map(({ files }) => files)),
    filesRead: progress.filesRead,
    filesWritten: progress.files,
    bytesWritten: sum(staged.map(({ bytes }) => bytes)),
    removed: sum(restores.map(({ plan }) => plan.removals.length)),
    objectsRead: reader.packs + 1,
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

export async function demandCheckpoint(
  store: CheckpointStore,
  id: string,
  sessionId: string | undefined,
): Promise<CheckpointInfo> {
  const info = id === "latest" ? await store.records.latest(sessionId) : await store.records.get(id);
  if (info !== undefined) return info;
  const detail =
    id === "latest"
      ? "There is no checkpoint yet. Take one first."
      : `There is no checkpoint ${id}. List them to see which there are.`;
  throw new SluiceError("not_found", detail, { checkpoint_id: id });
}
