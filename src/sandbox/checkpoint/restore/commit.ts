import {
  closeSync,
  fchmodSync,
  fstatSync,
  futimesSync,
  lstatSync,
  renameSync,
  rmdirSync,
  unlinkSync,
  type Stats,
} from "node:fs";
import { SluiceError } from "../../../contract/index.ts";
import { openRegularSync } from "../../host/files/open-file.ts";
import { OpenFolder, ownerUid, splitPath, SwappedFolder } from "../../host/files/open-folder.ts";
import type { Slice } from "../../host/time-slice.ts";
import type { Owner } from "../../port.ts";
import { type FileEntry, MODE_BITS } from "../manifest.ts";
import type { StatCache } from "../stat-cache.ts";
import type { RestorePlan } from "./plan.ts";
import type { StagingFolder } from "./staging-folder.ts";

/** Removes entries that the checkpoint does not have, and moves the staged ones to their paths: one atomic step each. */
export async function commitRestore(
  root: string,
  plan: RestorePlan,
  options: { staging: StagingFolder; cache: StatCache; slice: Slice; owner: Owner | undefined },
): Promise<void> {
  const { staging, cache, slice } = options;
  const own = ownerUid(options.owner);
  const parents = new Parents(root, own);
  try {
    for (const { path, folder } of plan.removals) {
      if (slice.isOver) await slice.pause();
      parents.change(path, (at) => remove(at, folder));
      cache.forget(path);
    }
    for (const [n, graft] of plan.grafts.entries()) {
      if (slice.isOver) await slice.pause();
      parents.change(graft.path, (at) => renameSync(staging.at(n), at));
      for (const entry of graft.entries) {
        if (entry.kind !== "file") continue;
        // The rename has changed the times of the graft's top entry, so its stats are read again.
        const moved = entry.path === graft.path;
        const stat = moved ? parents.look(graft.path, (at) => lstatSync(at)) : staging.stats.get(entry.path);
        if (stat) cache.keep(entry.path, stat, entry, { settled: true });
      }
    }
    for (const entry of plan.touches) {
      if (slice.isOver) await slice.pause();
      const stat = parents.look(entry.path, (at) => setModeAndTime(at, entry, own));
      if (stat) cache.keep(entry.path, stat, entry, { settled: true });
    }
    const made = plan.grafts.flatMap((graft) => graft.entries).filter((entry) => entry.kind === "directory");
    // The innermost folder comes first: the new mode of an outer one may forbid access to it.
    for (const { path, mode } of parents.withForced([...plan.modes, ...made]).toReversed()) {
      if (slice.isOver) await slice.pause();
      parents.setMode(path, mode);
    }
  } finally {
    parents.close();
  }
}

/** Returns the new stats; undefined for a file that is left alone. */
function setModeAndTime(at: string, { mode, mtime }: FileEntry, own: number | undefined): Stats | undefined {
  const fd = openRegularSync(at);
  try {
    const { uid, nlink } = fstatSync(fd);
    // An agent may have put another user's file there, or a link to one.
    if (uid !== own || nlink > 1) return undefined;
    fchmodSync(fd, mode);
    futimesSync(fd, mtime / 1000, mtime / 1000);
    return fstatSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Opens the parent folders of paths. The last one stays open, because the next path is mostly in it, too. */
class Parents {
  readonly #root: string;
  /** The owner of folders that may be changed. */
  readonly #own: number | undefined;
  /** The modes of folders that we could not write to, until we changed them. */
  readonly #forced = new Map<string, number>();
  #path: string | undefined;
  #folder: OpenFolder | undefined;

  constructor(root: string, own: number | undefined) {
    this.#root = root;
    this.#own = own;
  }

  look<T>(path: string, work: (at: string, parent: OpenFolder, name: string) => T): T {
    const { parent, name } = splitPath(path);
    const folder = this.#open(parent);
    return work(folder.at(name), folder, name);
  }

  /** Like `look`, but changes the parent folder itself. A folder that forbids changes gets another mode meanwhile. */
  change(path: string, work: (at: string) => void): void {
    this.look(path, (at, folder) => {
      const { parent } = splitPath(path);
      const { mode, uid } = folder.stat();
      const isClosed = (mode & 0o300) !== 0o300 && uid === this.#own;
      if (isClosed && parent !== "" && !this.#forced.has(parent)) {
        this.#forced.set(parent, mode & MODE_BITS);
        folder.chmod((mode & MODE_BITS) | 0o700);
      }
      work(at);
    });
  }

  /** A folder that is gone, or is another user's, is left as it is. */
  setMode(path: string, mode: number): void {
    this.look(path, (at, parent, name) => {
      if (lstatSync(at, { throwIfNoEntry: false }) === undefined) return;
      const folder = parent.open(name);
      try {
        if (folder.stat().uid === this.#own) folder.chmod(mode);
      } finally {
        folder.close();
      }
    });
  }

  /** These modes, and the former modes of folders that `change` has opened, sorted by path. */
  withForced(
    modes: readonly { readonly path: string; readonly mode: number }[],
  ): { readonly path: string; readonly mode: number }[] {
    const all = new Map(this.#forced);
    for (const { path, mode } of modes) all.set(path, mode);
    return [...all].map(([path, mode]) => ({ path, mode })).sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  close(): void {
    this.#folder?.close();
    this.#folder = undefined;
  }

  #open(path: string): OpenFolder {
    if (this.#folder !== undefined && this.#path === path) return this.#folder;
    this.close();
    this.#folder = openFolder(this.#root, path);
    this.#path = path;
    return this.#folder;
  }
}

function remove(at: string, folder: boolean): void {
  try {
    if (folder) rmdirSync(at);
    else unlinkSync(at);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A folder stays if it has entries that a restore never removes.
    if (code !== "ENOENT" && !(folder && (code === "ENOTEMPTY" || code === "EEXIST"))) throw error;
  }
}

function openFolder(root: string, path: string): OpenFolder {
  try {
    return OpenFolder.openReal(path === "" ? root : `${root}/${path}`, { readable: true });
  } catch (error) {
    if (!(error instanceof SwappedFolder)) throw error;
    const detail = `The folder ${path} was replaced while a checkpoint was being restored. Stop the program that writes there, and restore again.`;
    throw new SluiceError("permission_denied", detail, { path });
  }
}
