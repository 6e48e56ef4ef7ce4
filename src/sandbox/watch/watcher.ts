import { lstatSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { Slice } from "../host/time-slice.ts";
import { Backlog, type FileChange, type WatchWarning } from "./changes.ts";
import { Survey } from "./survey.ts";
import { CLOCK_TICK_MS, findDifferences, toSnapshot, type TreeSnapshot } from "./tree.ts";
import { drained, onOverflow } from "./watches.ts";

const DEBOUNCE_MS = 20;
const SLICE_MS = 5;
/** The delay of the first change after a pause. */
const FIRST_MS = 3;
/** A tree that takes long to compare is compared less often, but at least at this interval. */
const MAX_DELAY_MS = 1_000;
const POLL_MS = 1_000;
const POLL_EASE = 20;
const MAX_ENTRIES = 1_000_000;
/**
 * Up to this number of entries, `flush` compares all of them, within milliseconds. Above it, `flush` compares only
 * those with kernel events.
 */
const VERIFIED_ENTRIES = 5_000;

export interface WatcherOptions {
  readonly folder: string;
  /** Whether the path of the folder has no symlink in it. One that is put there later is not followed. */
  readonly real?: boolean;
  /** Further paths to leave out, relative to the folder. `.git` and `node_modules` are always left out. */
  readonly ignore?: (path: string) => boolean;
  readonly debounceMs?: number;
  readonly maxEntries?: number;
  readonly onError?: (warning: WatchWarning) => void;
}

/** Watches every file and symlink below a folder; no symlink is followed. Untaken changes are kept once per path. */
export interface Watcher {
  /** Resolves when the watcher knows the tree: it reports every change from then on, but no file that exists. */
  readonly ready: Promise<void>;
  /** The changes since the last call, in order. */
  take(): FileChange[];
  /** Resolves when there are changes to take, or the watcher is stopped. */
  moved(options: { signal: AbortSignal }): Promise<void>;
  /** Resolves when every change before the call can be taken. */
  flush(): Promise<void>;
  /** The tree as the reader knows it from the changes that it took, for a later server. */
  snapshot(): TreeSnapshot;
  /**
   * Continues from a snapshot; call it before the first `take`. `reported` has the changes that were taken after the
   * snapshot.
   */
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
  /** Whether a new file that is still empty is left for the next comparison. */
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
      onMarked: () => this.#schedule(),
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
      // Every change updates ctime, and no program can set it back.
      return found !== undefined && found.ctimeMs + CLOCK_TICK_MS <= timestamp;
    };
    this.#backlog.take();
    const changes = findDifferences(this.#survey.top, snapshot, { changes: reported, isUnchanged });
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

  /** Compares marked folders when the current comparison has ended. All callers in the meantime share the next one. */
  #look(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.#pass((slice) => this.#survey.look(slice, { hasty: this.#hasty }));
    });
    this.#running = this.#next;
    return this.#next;
  }

  async #pass(work: (slice: Slice) => Promise<void>): Promise<void> {
    const slice = new Slice({ lengthMs: SLICE_MS });
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
      // A waiting flush shares this comparison, and must not be hasty.
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
    try {
      this.#options.onError?.(warning);
    } catch {
      // A receiver that fails must not end the watch.
    }
  }
}

const FOREVER_MS = 2 ** 30;

/** The waiting readers. A waiting reader keeps the process alive; the watches alone do not. */
class Waiters {
  readonly #waiting = new Set<() => void>();
  #alive: NodeJS.Timeout | undefined;

  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(woken);
        signal.removeEventListener("abort", aborted);
        if (this.#waiting.size > 0) return;
        clearInterval(this.#alive);
        this.#alive = undefined;
      };
      const woken = (): void => {
        end();
        resolve();
      };
      const aborted = (): void => {
        end();
        reject(signal.reason as Error);
      };
      this.#waiting.add(woken);
      signal.addEventListener("abort", aborted, { once: true });
      this.#alive ??= setInterval(() => {}, FOREVER_MS);
    });
  }

  wake(): void {
    for (const woken of this.#waiting) woken();
  }
}

/** Names that are never watched, at any depth: their content is large and generated. */
const IGNORED_NAMES: ReadonlySet<string> = new Set([".git", "node_modules"]);

type Ignore = (path: string) => boolean;

function toIgnore(more?: Ignore): (name: string, path: string) => boolean {
  return (name, path) => IGNORED_NAMES.has(name) || (more?.(path) ?? false);
}
