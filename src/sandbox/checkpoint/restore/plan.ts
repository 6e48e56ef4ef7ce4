import type { Stats } from "node:fs";
import { SluiceError } from "../../../contract/index.ts";
import { splitPath } from "../../host/files/open-folder.ts";
import type { Slice } from "../../host/time-slice.ts";
import { readContent, Slab, type Progress } from "../content.ts";
import type { Exclusion } from "../exclusion.ts";
import { MODE_BITS, type Entry, type FileEntry } from "../manifest.ts";
import type { StatCache } from "../stat-cache.ts";
import { walk, type Found } from "../walk.ts";

/** The work on one root. Entries that match already are left out. */
export interface RestorePlan {
  /** The topmost new entries, each with all entries below it. One rename moves each graft to its path. */
  readonly grafts: readonly Graft[];
  /** Entries to remove, the innermost first. */
  readonly removals: readonly { readonly path: string; readonly folder: boolean }[];
  /** Files with the right content and a wrong mode or time. */
  readonly touches: readonly FileEntry[];
  /** Existing folders that need another mode. */
  readonly modes: readonly { readonly path: string; readonly mode: number }[];
}

export interface Graft {
  readonly path: string;
  readonly entries: readonly Entry[];
}

interface PlanOptions {
  readonly wanted: readonly Entry[];
  readonly exclusion: Exclusion;
  readonly cache: StatCache;
  readonly slice: Slice;
  readonly progress: Progress;
}

export async function planRestore(root: string, options: PlanOptions): Promise<RestorePlan> {
  const { exclusion } = options;
  const wanted = options.wanted.filter((entry) => !exclusion.covers(entry.path));
  const unread = new Set(wanted.filter((entry) => entry.kind === "unread").map((entry) => entry.path));
  const there = await compare(root, wanted, unread, options);
  const kinds = new Map(wanted.map((entry) => [entry.path, entry.kind]));
  const removals = there.found
    .filter(({ found, fits }) => !fits && !there.kept.has(found.path))
    .map(({ found }) => ({ path: found.path, folder: found.kind === "directory" }))
    // An entry that a rename replaces needs no removal first.
    .filter(({ path, folder }) => folder || !kinds.has(path) || kinds.get(path) === "directory")
    .toReversed();
  const fitting = new Map(there.found.filter(({ fits }) => fits).map((entry) => [entry.found.path, entry]));
  const grafts: { path: string; entries: Entry[] }[] = [];
  const newFolders = new Map<string, (typeof grafts)[number]>();
  const touches: FileEntry[] = [];
  const modes: { path: string; mode: number }[] = [];
  for (const entry of wanted) {
    if (entry.kind === "unread") continue;
    const here = fitting.get(entry.path);
    if (here === undefined) {
      demandRoom(entry, there.kept);
      const above = newFolders.get(splitPath(entry.path).parent);
      const graft = above ?? { path: entry.path, entries: [] };
      if (above === undefined) grafts.push(graft);
      graft.entries.push(entry);
      if (entry.kind === "directory") newFolders.set(entry.path, graft);
    } else if (entry.kind === "file" && here.touch) touches.push(entry);
    else if (entry.kind === "directory" && here.found.kind === "directory") {
      if ((here.found.stat.mode & MODE_BITS) !== entry.mode) modes.push(entry);
    }
  }
  return { grafts, removals, touches, modes };
}

interface Compared {
  readonly found: Found;
  /**
   * Whether the found entry can stay: both are folders, or links with the same target, or files with the same bytes.
   */
  readonly fits: boolean;
  /** Whether its mode or time has to change. */
  readonly touch: boolean;
}

async function compare(
  root: string,
  wanted: readonly Entry[],
  unread: ReadonlySet<string>,
  options: PlanOptions,
): Promise<{ found: Compared[]; kept: Set<string> }> {
  const entries = new Map(wanted.map((entry) => [entry.path, entry]));
  const found: Compared[] = [];
  const kept = new Set<string>();
  const keep = (path: string): void => {
    for (let up = path; up !== "" && !kept.has(up); up = splitPath(up).parent) kept.add(up);
  };
  await walk(root, {
    exclusion: options.exclusion,
    slice: options.slice,
    leave: keep,
    visit: async (here, at) => {
      // The checkpoint could not read this entry, so the restore leaves it and its content alone.
      if (unread.has(here.path) || isBelow(here.path, unread)) return keep(here.path);
      const entry = entries.get(here.path);
      if (here.kind !== "file" || entry?.kind !== "file") {
        const fits = here.kind === entry?.kind && (here.kind !== "symlink" || isSameLink(here, entry));
        found.push({ found: here, fits, touch: false });
        return;
      }
      const same = await isSameContent(here, entry, at, options);
      const touch = same && !isSameStat(here.stat, entry);
      // A file with several names is replaced: a change of mode or time would show under the other names, too.
      found.push({ found: here, fits: same && !(touch && here.stat.nlink > 1), touch });
    },
  });
  return { found, kept };
}

async function isSameContent(
  here: Found & { kind: "file" },
  entry: FileEntry,
  at: string,
  { cache, slice, progress }: PlanOptions,
): Promise<boolean> {
  if (here.stat.size !== entry.size) return false;
  const known = cache.find(here.path, here.stat);
  if (known !== undefined) return known.sha256 === entry.sha256;
  const read = await readContent(at, { slice, slab: new Slab() });
  if (typeof read === "string") return false;
  progress.read(read.size);
  if (read.stable) cache.keep(here.path, read.stat, read.content);
  return read.stable && read.content.sha256 === entry.sha256;
}

function isSameStat(stat: Stats, entry: FileEntry): boolean {
  return (stat.mode & MODE_BITS) === entry.mode && Math.round(stat.mtimeMs) === entry.mtime;
}

function isSameLink(here: Found, entry: Entry | undefined): boolean {
  return here.kind === "symlink" && entry?.kind === "symlink" && here.target === entry.target;
}

function isBelow(path: string, folders: ReadonlySet<string>): boolean {
  if (folders.size === 0) return false;
  for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) {
    if (folders.has(path.slice(0, end))) return true;
  }
  return false;
}

/** Refuses the whole restore if an entry that may not be removed is in the way of a new one. */
function demandRoom(entry: Entry, kept: ReadonlySet<string>): void {
  if (!kept.has(entry.path)) return;
  const detail = `The checkpoint has a ${entry.kind} at ${entry.path}, but the entry there now is one that a restore never removes. Move it away and try again.`;
  throw new SluiceError("invalid_request", detail, { path: entry.path });
}
