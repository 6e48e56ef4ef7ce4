import {
  closeSync,
  fchmodSync,
  fstatSync,
  futimesSync,
  lstatSync,
  renameSync,
  rmdirSync,
  unlinkSync,
} from "node:fs";
import { SluiceError } from "../../contract/index.ts";
import type { OpenFolder } from "../host/open-folder.ts";
import { ownerUid, type Owner } from "../host/owner.ts";
import { openRegularSync } from "../host/open-file.ts";
import { openAnchor } from "./anchor.ts";
import { MODE_BITS } from "./page.ts";
import type { RestorePlan } from "./restorePlan.ts";
import type { Slice } from "./slice.ts";
import type { Stage } from "./stage.ts";
import type { StatCache } from "./statCache.ts";

/** Puts what was staged in its place and takes the rest away: one step a file, each of them whole. */
export async function commitRestore(
  root: string,
  plan: RestorePlan,
  options: { stage: Stage; cache: StatCache; slice: Slice; owner: Owner | undefined },
): Promise<void> {
  const { stage, cache, slice } = options;
  const own = ownerUid(options.owner);
  const parents = new Parents(root, own);
  try {
    for (const { path, folder } of plan.removals) {
      if (slice.due) await slice.rest();
      parents.change(path, (at) => remove(at, folder));
      cache.forget(path);
    }
    for (const [n, graft] of plan.grafts.entries()) {
      if (slice.due) await slice.rest();
      parents.change(graft.path, (at) => renameSync(stage.at(n), at));
      for (const entry of graft.entries) {
        if (entry.kind !== "file") continue;
        // A rename changes the times of what is renamed, not of what is in it.
        const moved = entry.path === graft.path;
        const stat = moved ? parents.look(graft.path, (at) => lstatSync(at)) : stage.stats.get(entry.path);
        if (stat) cache.keep(entry.path, stat, entry, { settled: true });
      }
    }
    for (const entry of plan.touches) {
      if (slice.due) await slice.rest();
      parents.look(entry.path, (at) => {
        const fd = openRegularSync(at);
        try {
          const { uid, nlink } = fstatSync(fd);
          // Another user's file was put in its place, or another name of one.
          if (uid !== own || nlink > 1) return;
          fchmodSync(fd, entry.mode);
          futimesSync(fd, entry.mtime / 1000, entry.mtime / 1000);
          cache.keep(entry.path, fstatSync(fd), entry, { settled: true });
        } finally {
          closeSync(fd);
        }
      });
    }
    const made = plan.grafts.flatMap((graft) => graft.entries).filter((entry) => entry.kind === "directory");
    // The innermost first: a mode may close what is inside.
    for (const { path, mode } of parents.opened([...plan.modes, ...made]).toReversed()) {
      if (slice.due) await slice.rest();
      parents.setMode(path, mode);
    }
  } finally {
    parents.close();
  }
}

/** The folders that are worked in; the last one stays open, for the next path is mostly in it too. */
class Parents {
  readonly #root: string;
  /** Whose folders may be changed. */
  readonly #own: number | undefined;
  /** Folders that were closed to us, with the modes that they had. */
  readonly #forced = new Map<string, number>();
  #path: string | undefined;
  #anchor: OpenFolder | undefined;

  constructor(root: string, own: number | undefined) {
    this.#root = root;
    this.#own = own;
  }

  look<T>(path: string, work: (at: string) => T): T {
    const cut = path.lastIndexOf("/");
    const parent = path.slice(0, Math.max(0, cut));
    return work(this.#open(parent).at(path.slice(cut + 1)));
  }

  /** The same for a change of the folder itself, which it may be closed to. */
  change(path: string, work: (at: string) => void): void {
    this.look(path, (at) => {
      const parent = this.#path ?? "";
      if (this.#anchor && parent !== "" && !this.#forced.has(parent)) {
        const { mode, uid } = this.#anchor.stat();
        const isClosed = (mode & 0o300) !== 0o300 && uid === this.#own;
        if (isClosed) this.#forced.set(parent, mode & MODE_BITS);
        if (isClosed) this.#anchor.chmod((mode & MODE_BITS) | 0o700);
      }
      work(at);
    });
  }

  /** A folder that is gone, or is another user's, is left as it is. */
  setMode(path: string, mode: number): void {
    this.look(path, (at) => {
      if (lstatSync(at, { throwIfNoEntry: false }) === undefined) return;
      const cut = path.lastIndexOf("/");
      const folder = this.#open(path.slice(0, Math.max(0, cut))).open(path.slice(cut + 1));
      try {
        if (folder.stat().uid === this.#own) folder.chmod(mode);
      } finally {
        folder.close();
      }
    });
  }

  /** With the modes of those that were opened by force, unless they get another one anyway. */
  opened(
    modes: readonly { readonly path: string; readonly mode: number }[],
  ): { readonly path: string; readonly mode: number }[] {
    const all = new Map(this.#forced);
    for (const { path, mode } of modes) all.set(path, mode);
    return [...all].map(([path, mode]) => ({ path, mode })).sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  close(): void {
    this.#anchor?.close();
    this.#anchor = undefined;
  }

  #open(path: string): OpenFolder {
    if (this.#anchor !== undefined && this.#path === path) return this.#anchor;
    this.close();
    const anchor = openAnchor(this.#root, path);
    if (anchor === undefined) throw meddling(path);
    this.#path = path;
    this.#anchor = anchor;
    return anchor;
  }
}

function remove(at: string, folder: boolean): void {
  try {
    if (folder) rmdirSync(at);
    else unlinkSync(at);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A folder with something in it that is never removed stays.
    if (code !== "ENOENT" && !(folder && (code === "ENOTEMPTY" || code === "EEXIST"))) throw error;
  }
}

function meddling(path: string): SluiceError {
  const detail = `The folder ${path} was replaced while a checkpoint was being restored. Stop whatever writes there and restore again.`;
  return new SluiceError("permission_denied", detail, { path });
}
