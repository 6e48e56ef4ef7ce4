import { SluiceError } from "../../contract/index.ts";
import { withFileErrors } from "../host/fileErrors.ts";
import { OpenFolder } from "../host/open-folder.ts";
import type { Owner } from "../host/owner.ts";
import { removeEntry } from "../host/removeTree.ts";
import { commitRestore } from "./commit.ts";
import { Exclusion, STAGE_PREFIX } from "./exclusion.ts";
import { demandRootNames, parseManifest, readEntries, toManifestKey } from "./manifest.ts";
import type { CheckpointInfo, CheckpointRestored, RestoreOptions } from "./port.ts";
import { PieceReader } from "./pieceReader.ts";
import { Progress } from "./progress.ts";
import { planRestore, type RestorePlan } from "./restorePlan.ts";
import { openRoots, type RootFolder } from "./rootFolder.ts";
import { Slice } from "./slice.ts";
import { Stage } from "./stage.ts";
import { StatCache } from "./statCache.ts";
import type { Shelf } from "./take.ts";

interface RootRestore {
  readonly root: RootFolder;
  readonly cache: StatCache;
  readonly plan: RestorePlan;
  /** The root itself, held open, and the name of the folder in it where everything is made ready. */
  readonly folder: OpenFolder;
  readonly stageName: string;
  readonly owner: Owner | undefined;
  readonly files: number;
}

/** Reads and checks everything, plans, stages what is missing, and only then changes what is there. */
export async function restoreCheckpoint(
  shelf: Shelf,
  info: CheckpointInfo,
  options: RestoreOptions,
): Promise<CheckpointRestored> {
  demandRootNames(options.roots);
  const slice = new Slice(options.signal);
  const progress = new Progress(options.onProgress);
  const reader = new PieceReader(shelf.index);
  const manifest = parseManifest(info.hash, await shelf.storage.get(toManifestKey(info.hash)));
  await shelf.index.refresh();
  const pages = await reader.readAll([...manifest.roots.values()].flatMap((root) => root.pages));
  const wanted = new Map(
    await Promise.all(
      [...manifest.roots].map(async ([name, root]) => {
        const entries = await readEntries(root, (page) => pages.get(page));
        return [name, { entries, exclude: root.exclude }] as const;
      }),
    ),
  );
  const given = Object.entries(options.roots).filter(([name]) => wanted.has(name));
  const roots = await openRoots(Object.fromEntries(given), { never: shelf.never, make: true });
  const restores: RootRestore[] = [];
  const opened: OpenFolder[] = [];
  const staged: Stage[] = [];
  try {
    for (const root of roots) {
      const { entries = [], exclude = [] } = wanted.get(root.name) ?? {};
      const folder = OpenFolder.openReal(root.path);
      opened.push(folder);
      await clearStages(folder);
      const owner = options.owner ?? toOwner(folder);
      const cache = await StatCache.load(shelf.cacheFolder, root.path);
      const exclusion = new Exclusion(root.name, exclude, root.holes);
      const plan = await planRestore(root.path, { wanted: entries, exclusion, cache, slice, progress });
      const files = entries.filter((entry) => entry.kind === "file").length;
      const stageName = `${STAGE_PREFIX}${process.pid}-${Math.random().toString(36).slice(2)}`;
      restores.push({ root, cache, plan, folder, stageName, owner, files });
    }
    progress.total = restores.flatMap(({ plan }) => plan.grafts.flatMap(toFiles)).length;
    for (const restore of restores) {
      staged.push(
        await withFileErrors(restore.root.path, () => fillStage(restore, { reader, slice, progress })),
      );
    }
    options.signal?.throwIfAborted();
    // From here on it is not stopped: what is half done would be worse than either end.
    const steady = new Slice(undefined);
    for (const [n, { root, plan, cache, owner }] of restores.entries()) {
      const stage = staged[n];
      if (stage)
        await withFileErrors(root.path, () =>
          commitRestore(root.path, plan, { stage, cache, slice: steady, owner }),
        );
      await cache.save();
    }
  } finally {
    for (const stage of staged) stage.close();
    for (const { folder, stageName } of restores) await removeEntry(folder, stageName);
    for (const folder of opened) folder.close();
  }
  progress.end();
  return { info, work: toWork(restores, staged, progress, reader) };
}

async function fillStage(
  restore: RootRestore,
  tools: { reader: PieceReader; slice: Slice; progress: Progress },
): Promise<Stage> {
  const { plan, folder, stageName, owner } = restore;
  const { reader, ...pace } = tools;
  const made = plan.grafts.length === 0 ? undefined : folder.make(stageName, { mode: 0o700 });
  const stage = new Stage(made ?? OpenFolder.openReal(restore.root.path), { owner, ...pace });
  try {
    await stage.build(plan.grafts);
    await reader.eachOf([...stage.pieces()], (piece, bytes) => stage.fill(piece, bytes));
    await stage.check();
    return stage;
  } catch (error) {
    stage.close();
    throw error;
  }
}

/** The agent's user is not ours when we are root, and what is in its folders has to be its own. */
function toOwner(root: OpenFolder): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = root.stat();
  return { uid, gid };
}

async function clearStages(root: OpenFolder): Promise<void> {
  for (const name of root.names()) if (name.startsWith(STAGE_PREFIX)) await removeEntry(root, name);
}

function toFiles(graft: RestorePlan["grafts"][number]): unknown[] {
  return graft.entries.filter((entry) => entry.kind === "file");
}

function toWork(
  restores: readonly RootRestore[],
  staged: readonly Stage[],
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
  shelf: Shelf,
  id: string,
  sessionId: string | undefined,
): Promise<CheckpointInfo> {
  const info = id === "latest" ? await shelf.catalog.latest(sessionId) : await shelf.catalog.get(id);
  if (info !== undefined) return info;
  const detail =
    id === "latest"
      ? "There is no checkpoint yet. Take one first."
      : `There is no checkpoint ${id}. List them to see which there are.`;
  throw new SluiceError("not_found", detail, { checkpoint_id: id });
}
