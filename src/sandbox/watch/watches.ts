import { readFileSync, watch, type Stats } from "node:fs";
import { basename } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import type { OpenFolder } from "../host/files/open-folder.ts";
import type { WatchWarning } from "./changes.ts";
import type { Folder } from "./tree.ts";

interface WatchesOptions {
  onEvent(folder: Folder, type: string, name: string | null): void;
  /** The kernel has ended the watch of a folder. */
  onBroken(folder: Folder): void;
  warn(warning: WatchWarning): void;
}

/** The kernel's watches, one per folder. */
export class Watches {
  /** Folders without a watch, for lack of watches or of permission. */
  readonly missing = new Set<Folder>();
  readonly #options: WatchesOptions;

  constructor(options: WatchesOptions) {
    this.#options = options;
  }

  /** Watches a folder. Call it before its content is read, so that no later change is missed. True for a new watch. */
  ensure(folder: Folder, open: OpenFolder): boolean {
    const identity = toIdentity(open.stat());
    if (folder.watcher && !folder.unsure && folder.identity === identity) {
      this.missing.delete(folder);
      return false;
    }
    this.end(folder);
    folder.identity = identity;
    folder.unsure = false;
    folder.self = basename(open.path);
    try {
      this.#begin(folder, open.path);
    } catch (error) {
      this.missing.add(folder);
      this.#options.warn(toWarning(error));
    }
    return true;
  }

  end(folder: Folder): void {
    const { watcher } = folder;
    folder.watcher = undefined;
    this.missing.delete(folder);
    watcher?.close();
  }

  #begin(folder: Folder, path: string): void {
    const watcher = watch(path, { persistent: false }, (type, name) => {
      countEvent();
      this.#options.onEvent(folder, type, name);
    });
    watcher.on("error", () => {
      if (folder.watcher !== watcher) return;
      this.end(folder);
      this.missing.add(folder);
      this.#options.onBroken(folder);
    });
    folder.watcher = watcher;
  }
}

export function toWarning(error: unknown): WatchWarning {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EMFILE") return { reason: "failed", detail: message };
  const setting = code === "ENOSPC" ? "max_user_watches" : "max_user_instances";
  const detail = `The kernel has no file watches left, so some folders are only looked at now and then. Give it more: sysctl fs.inotify.${setting}=1048576`;
  return { reason: "out_of_watches", detail };
}

/**
 * A burst of this share of the kernel's queue counts as an overflow, because Node does not pass on the overflow event.
 */
const SUSPICIOUS_PART = 1 / 8;
const DEFAULT_QUEUE = 16_384;

const listeners = new Set<() => void>();
let limit: number | undefined;
let burst = 0;

/** All watches of a process share one queue in the kernel, so an overflow concerns every watcher. */
export function onOverflow(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Counts an event of the kernel; the caller reports every one. */
function countEvent(): void {
  burst += 1;
  if (burst === 1) setImmediate(endBurst);
}

/** Resolves when every event that was in the queue at the call has been delivered. */
export async function drained(): Promise<void> {
  // The first turn may be the rest of the current one. Before the second, the whole queue is read. By the third, an
  // overflow is known.
  for (let turns = 0; turns < 3; turns++) await turn();
}

function endBurst(): void {
  limit ??= readLimit();
  const suspicious = burst >= limit * SUSPICIOUS_PART;
  burst = 0;
  if (suspicious) for (const listener of listeners) listener();
}

function readLimit(): number {
  try {
    return Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8")) || DEFAULT_QUEUE;
  } catch {
    return DEFAULT_QUEUE;
  }
}

/** The identity of a folder. The kernel reuses inodes at once, so the birth time is part of it. */
export function toIdentity(found: Stats): string {
  return `${found.dev}:${found.ino}:${found.birthtimeMs}`;
}
