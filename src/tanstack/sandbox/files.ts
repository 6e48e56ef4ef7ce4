import { posix } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { toMappedPath } from "../../sandbox/host/files/paths.ts";
import { createWatcher, type FileChange, type WatchWarning } from "../../sandbox/index.ts";
import type { HostSandbox } from "../../sandbox/port.ts";
import { type TanStackFiles, toUnsupported } from "./contract.ts";

export interface FilesOptions {
  readonly sandbox: HostSandbox;
  /** The provider's name. */
  readonly name: string;
  /** Called for each file that the application writes. */
  readonly wrote: (path: string, data: string | Uint8Array) => void;
}

export interface Files {
  readonly fs: Required<TanStackFiles>;
  /** Stops all watchers that are still open. */
  release(): Promise<void>;
}

/** A sandbox's files behind TanStack's interface: `remove` ignores a missing file, `rename` overwrites. */
export function createFiles({ sandbox, name, wrote }: FilesOptions): Files {
  const { files } = sandbox;
  const watchers = new Set<() => Promise<void>>();
  const readBytes = (path: string): Promise<Uint8Array> => files.read(path);
  const fs: Required<TanStackFiles> = {
    readBytes,
    read: async (path) => new TextDecoder().decode(await readBytes(path)),
    write: async (path, data) => {
      await files.write(path, data);
      wrote(path, data);
    },
    list: async (path) =>
      (await files.list(path)).map((entry) => ({
        name: entry.name,
        path: posix.join(path, entry.name),
        type: entry.entryType === "directory" ? ("dir" as const) : ("file" as const),
      })),
    mkdir: (path) => files.mkdir(path),
    remove: (path) => files.remove(path, { recursive: true }).catch(ignoreMissing),
    rename: (from, to) => files.move(from, to, { overwrite: true }),
    exists: async (path) => {
      const found = await files.stat(path).catch(ignoreMissing);
      return found !== undefined;
    },
    watch: async (path, onEvent) => {
      const { folders, paths } = sandbox;
      if (!folders) throw await toUnsupported(name, "fs.watch", "Its files are not on this host.");
      const host = { ...folders, outputs: posix.join(folders.workspace, "output") };
      const mapped = toMappedPath(path, paths, paths.workspace, host).host;
      const located = await files.locate?.(path);
      const folder = located ?? mapped;
      const report = (change: FileChange): void => onEvent({ type: change.type, path: change.path });
      const watcher = await watchFolder({
        folder,
        real: located !== undefined,
        shown: path,
        onEvent: report,
      });
      const stop = async (): Promise<void> => {
        watchers.delete(stop);
        await watcher.stop();
      };
      watchers.add(stop);
      return { stop };
    },
  };
  const release = async (): Promise<void> => void (await Promise.all([...watchers].map((stop) => stop())));
  return { fs, release };
}

/** Throws every error but that of a missing file. */
function ignoreMissing(error: unknown): void {
  if (!(error instanceof SluiceError) || error.code !== "file_not_found") throw error;
}

export interface WatchFolderOptions {
  /** A folder of this host. */
  readonly folder: string;
  /** Whether the folder's path has no symlink. A symlink that appears later is not followed. */
  readonly real?: boolean;
  /** The folder's name in events (default: the folder). */
  readonly shown?: string;
  /** Further relative paths to ignore, besides `.git`, `node_modules` and TanStack's own files. */
  readonly ignore?: (path: string) => boolean;
  readonly onEvent: (event: FileChange) => void;
  /** Called once for each reason that makes watching slower or less complete. */
  readonly onWarning?: (warning: WatchWarning) => void;
  readonly signal?: AbortSignal;
}

/**
 * Watches a folder: reports created, changed and deleted files, also outside of runs. Resolves when no later change can
 * be missed.
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

/** TanStack's file with the address and the token of a run's tool server. */
const TOOL_SERVER_FILE = /(?:^|\/)\.tanstack-mcp-bridge-[^/]+\.json$/;
/** Another file that TanStack's adapters write for a run. */
const PROJECTED_FILE = /(?:^|\/)\.tanstack-projected-[^/]+$/;

/** Files that no snapshot has. */
export const CONTROL_PATTERNS: readonly string[] = [".tanstack-mcp-bridge-*"];

function isControlFile(path: string): boolean {
  return TOOL_SERVER_FILE.test(path) || PROJECTED_FILE.test(path);
}

/**
 * The address in a tool server file. A sandbox with its own network reaches it only if it is allowed, and the port
 * changes with each run.
 */
export function toToolServerHost(path: string, data: string | Uint8Array): string | undefined {
  if (!TOOL_SERVER_FILE.test(path)) return undefined;
  const text = typeof data === "string" ? data : new TextDecoder().decode(data);
  const [, host] = /"url":\s*"http:\/\/(127\.0\.0\.1:\d+)\//.exec(text) ?? [];
  return host;
}
