import { posix } from "node:path";
import type { FileChange, WatchWarning } from "../../sandbox/index.ts";
import { createWatcher } from "../../sandbox/index.ts";
import { isControlFile } from "./controlFiles.ts";

export interface WatchFolderOptions {
  /** On this host. */
  readonly folder: string;
  /** That its path has no symlink in it; should one be put there later, it is not followed. */
  readonly real?: boolean;
  /** The name that its files are told under; the folder's own unless said otherwise. */
  readonly shown?: string;
  /** More to leave out, by path relative to the folder; `.git`, `node_modules` and TanStack's own files always are. */
  readonly ignore?: (path: string) => boolean;
  readonly onEvent: (event: FileChange) => void;
  /** What makes watching slower or less complete, each reason once. */
  readonly onWarning?: (warning: WatchWarning) => void;
  readonly signal?: AbortSignal;
}

/**
 * The low-level watcher: every file that is created, changed or deleted below a folder, as it happens and outside of
 * any run. Answers once nothing is missed any more.
 */
export async function watchFolder(options: WatchFolderOptions): Promise<{ stop(): Promise<void> }> {
  const { folder, real = false, shown = folder, ignore, onEvent, onWarning, signal } = options;
  const watcher = createWatcher({
    folder,
    real,
    ignore: (path) => isControlFile(path) || (ignore?.(path) ?? false),
    ...(onWarning ? { onError: onWarning } : {}),
  });
  const over = new AbortController();
  const pump = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await watcher.moved({ signal: over.signal });
      for (const change of watcher.take()) onEvent({ ...change, path: posix.join(shown, change.path) });
    }
  };
  const stop = async (): Promise<void> => {
    signal?.removeEventListener("abort", onAbort);
    over.abort();
    await watcher.stop();
    await pumped;
  };
  const onAbort = (): void => void stop();
  await watcher.ready;
  const pumped = pump().catch(() => {});
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) await stop();
  return { stop };
}
