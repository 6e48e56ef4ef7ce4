import { watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import type { ForeignWatch } from "../store.ts";

const SETTLE_MS = 3;
const POLL_MS = 500;
const LINGER_MS = 2000;

/** Notices that another process writes to the database: by events of the WAL file, and by a slow poll in any case. */
export class FolderWatch implements ForeignWatch {
  readonly #folder: string;
  #watcher: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #linger: NodeJS.Timeout | undefined;
  #look: (() => void) | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  start(look: () => void): void {
    this.#look = look;
    clearTimeout(this.#linger);
    if (this.#poll === undefined) this.#open();
    // A waiting reader keeps the process alive, as an open socket would.
    (this.#watcher ?? this.#poll)?.ref();
    this.#lookSoon();
  }

  pause(): void {
    this.#look = undefined;
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#watcher?.unref();
    this.#poll?.unref();
    // The watch stays open a little: at a busy head the next waiter comes within a moment.
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => this.close(), LINGER_MS).unref();
  }

  close(): void {
    clearTimeout(this.#linger);
    clearTimeout(this.#soon);
    clearInterval(this.#poll);
    this.#watcher?.close();
    this.#look = this.#soon = this.#poll = this.#watcher = undefined;
  }

  #open(): void {
    this.#poll = setInterval(() => this.#look?.(), POLL_MS).unref();
    try {
      this.#watcher = watch(this.#folder, (_event, name) => {
        if (name === null || name.endsWith("-wal")) this.#lookSoon();
      });
      this.#watcher.on("error", () => {
        this.#watcher?.close();
        this.#watcher = undefined;
        if (this.#look) this.#poll?.ref();
      });
    } catch {
      // Out of inotify watches: the poll alone will do.
    }
  }

  /** One look for many small writes. */
  #lookSoon(): void {
    if (this.#look === undefined || this.#soon !== undefined) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      this.#look?.();
    }, SETTLE_MS);
  }
}
