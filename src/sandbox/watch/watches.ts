import { watch } from "node:fs";
import type { WatchWarning } from "./change.ts";
import { countEvent } from "./kernelQueue.ts";
import type { Pin } from "./pin.ts";
import type { Folder } from "./tree.ts";

export interface WatchesOptions {
  stirred(folder: Folder, type: string, name: string | null): void;
  /** Its watch has ended by itself. */
  broken(folder: Folder): void;
  warn(warning: WatchWarning): void;
}

/** The kernel's watches, one per folder. */
export class Watches {
  /** Folders without one, for lack of watches or of permission. */
  readonly missing = new Set<Folder>();
  readonly #options: WatchesOptions;

  constructor(options: WatchesOptions) {
    this.#options = options;
  }

  /** To be called before anything in it is read, so that whatever comes after is noticed. Answers whether it is new. */
  ensure(folder: Folder, pin: Pin): boolean {
    const { identity } = pin;
    if (folder.watcher && !folder.unsure && folder.identity === identity) {
      this.missing.delete(folder);
      return false;
    }
    this.end(folder);
    folder.identity = identity;
    folder.unsure = false;
    folder.self = pin.name;
    try {
      this.#begin(folder, pin.path);
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
      this.#options.stirred(folder, type, name);
    });
    watcher.on("error", () => {
      if (folder.watcher !== watcher) return;
      this.end(folder);
      this.missing.add(folder);
      this.#options.broken(folder);
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
