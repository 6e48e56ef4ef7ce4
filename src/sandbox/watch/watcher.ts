import { lstatSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { Backlog } from "./backlog.ts";
import type { FileChange, WatchWarning } from "./change.ts";
import { toIgnore } from "./ignored.ts";
import { drained, onOverflow } from "./kernelQueue.ts";
import { Slice } from "./slice.ts";
import { toDifferences, toSnapshot, type TreeSnapshot } from "./snapshot.ts";
import { Survey } from "./survey.ts";
import { CLOCK_TICK_MS } from "./tree.ts";
import { Waiters } from "./waiters.ts";

const DEBOUNCE_MS = 20;
/** The first change after silence need not wait for more. */
const FIRST_MS = 3;
/** A tree that takes long to look at is looked at less often. */
const MAX_DELAY_MS = 1_000;
const POLL_MS = 1_000;
const POLL_EASE = 20;
const MAX_ENTRIES = 1_000_000;
/** So many entries are compared within milliseconds; of more, only what the kernel says has changed. */
const VERIFIED_ENTRIES = 5_000;

export interface WatcherOptions {
  readonly folder: string;
  /** That its path has no symlink in it; should one be put there later, it is not followed. */
  readonly real?: boolean;
  /** More to leave out, by path relative to the folder; `.git` and `node_modules` always are. */
  readonly ignore?: (path: string) => boolean;
  readonly debounceMs?: number;
  readonly maxEntries?: number;
  readonly onError?: (warning: WatchWarning) => void;
}

/** Every file and symlink below a folder, symlinks not followed. Pull-based: what nobody takes is kept once per path. */
export interface Watcher {
  /** From then on nothing is missed; what was there before is no news. */
  readonly ready: Promise<void>;
  /** What is new since the last time, in order. */
  take(): FileChange[];
  /** Resolves when there is something to take, or the watcher is stopped. */
  moved(options: { signal: AbortSignal }): Promise<void>;
  /** Everything written before the call can be taken afterwards. */
  flush(): Promise<void>;
  /** What the reader knows by what it took, to be kept for a later life of the server. */
  snapshot(): TreeSnapshot;
  /** Goes on from a snapshot: to be called before anything is taken. `reported` was taken after it was made. */
  restore(snapshot: TreeSnapshot, reported?: Iterable<FileChange>): Promise<void>;
  stop(): Promise<void>;
}

export function createWatcher(options: WatcherOptions): Watcher {
  return new FolderWatcher(options);
}

class FolderWatcher implements Watcher {
  readonly ready: Promise<void>;
  readonly #options: WatcherOptions;
  readonly #root: string;
  readonly #survey: Survey;
  readonly #backlog = new Backlog();
  readonly #waiters = new Waiters();
  readonly #warned = new Set<WatchWarning["reason"]>();
  readonly #offOverflow: () => void;
  #timer: NodeJS.Timeout | undefined;
  #poll: NodeJS.Timeout | undefined;
  #running: Promise<void>;
  #next: Promise<void> | undefined;
  #costMs = 0;
  #passedAt = 0;
  #hasty = false;
  #stopped = false;

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#root = options.real ? options.folder : realpathSync(options.folder);
    this.#survey = new Survey({
      root: this.#root,
      maxEntries: options.maxEntries ?? MAX_ENTRIES,
      ignored: toIgnore(options.ignore),
      report: (type, path) => {
        this.#backlog.add({ type, path, timestamp: Date.now() });
        this.#waiters.wake();
      },
      warn: (warning) => this.#warn(warning),
      stirred: () => this.#schedule(),
    });
    this.#offOverflow = onOverflow(() => this.#onOverflow());
    this.ready = this.#pass((slice) => this.#survey.begin(slice));
    this.#running = this.ready;
  }

  take(): FileChange[] {
    return this.#backlog.take();
  }

  async moved({ signal }: { signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted();
    if (this.#backlog.size > 0 || this.#stopped) return;
    await this.#waiters.wait(signal);
  }

  async flush(): Promise<void> {
    await this.ready;
    await drained();
    if (this.#stopped) return;
    if (this.#survey.entries <= VERIFIED_ENTRIES || process.platform !== "linux") this.#survey.markAll();
    else this.#survey.markUnwatched();
    this.#hasty = false;
    await this.#look();
  }

  snapshot(): TreeSnapshot {
    return toSnapshot(this.#survey.top, this.#backlog);
  }

  async restore(snapshot: TreeSnapshot, reported: Iterable<FileChange> = []): Promise<void> {
    await this.ready;
    const isUnchanged = (path: string, timestamp: number): boolean => {
      const found = lstatSync(join(this.#root, path), { throwIfNoEntry: false });
      // Nothing but a real change moves this time, and nobody can set it back.
      return found !== undefined && found.ctimeMs + CLOCK_TICK_MS <= timestamp;
    };
    this.#backlog.take();
    const changes = toDifferences(this.#survey.top, snapshot, { changes: reported, isUnchanged });
    for (const change of changes) this.#backlog.add(change);
    if (changes.length > 0) this.#waiters.wake();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#offOverflow();
    clearTimeout(this.#timer);
    clearTimeout(this.#poll);
    this.#survey.close();
    this.#waiters.wake();
    await this.#running;
  }

  /** What is marked now is looked at once the look that is under way has ended; all who ask meanwhile share it. */
  #look(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.#pass((slice) => this.#survey.look(slice, { hasty: this.#hasty }));
    });
    this.#running = this.#next;
    return this.#next;
  }

  async #pass(work: (slice: Slice) => Promise<void>): Promise<void> {
    const slice = new Slice();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      await work(slice);
    } catch (error) {
      this.#warn({ reason: "failed", detail: error instanceof Error ? error.message : String(error) });
    }
    this.#costMs = slice.spentMs;
    this.#passedAt = performance.now();
    this.#hasty = false;
    if (this.#survey.isDirty) this.#schedule();
    this.#pollUnwatched();
  }

  #schedule(): void {
    if (this.#stopped || this.#timer !== undefined) return;
    const wanted = this.#options.debounceMs ?? DEBOUNCE_MS;
    const pace = Math.max(wanted, Math.min(this.#costMs, MAX_DELAY_MS));
    const rest = pace - (performance.now() - this.#passedAt);
    const delay = Math.max(rest, Math.min(wanted, FIRST_MS));
    const look = (): void => {
      // A flush that waits for its turn is thorough.
      if (this.#next === undefined) this.#hasty = delay < wanted;
      void this.#look();
    };
    this.#timer = setTimeout(look, delay).unref();
  }

  #pollUnwatched(): void {
    if (this.#stopped || this.#poll !== undefined || !this.#survey.hasUnwatched) return;
    const poll = (): void => {
      this.#poll = undefined;
      this.#survey.markUnwatched();
      // Looks at once; and again, as long as some are left.
      void this.#look();
    };
    this.#poll = setTimeout(poll, Math.max(POLL_MS, this.#costMs * POLL_EASE)).unref();
  }

  #onOverflow(): void {
    const detail = "So many files changed at once that the kernel may have left some out; all are compared.";
    this.#warn({ reason: "events_lost", detail });
    this.#survey.markAll();
  }

  #warn(warning: WatchWarning): void {
    if (this.#warned.has(warning.reason)) return;
    this.#warned.add(warning.reason);
    this.#options.onError?.(warning);
  }
}
