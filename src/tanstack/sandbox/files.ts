import { posix } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { FileChange } from "../../sandbox/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { toMappedPath } from "../../sandbox/host/mapping.ts";
import type { TanStackFiles } from "./contract.ts";
import { toUnsupported } from "./unsupported.ts";
import { watchFolder } from "./watching.ts";

export interface FilesOptions {
  readonly sandbox: Sandbox;
  /** How applications know the provider. */
  readonly name: string;
  /** Told of what the application itself writes. */
  readonly wrote: (path: string, data: string | Uint8Array) => void;
}

export interface Files {
  readonly fs: Required<TanStackFiles>;
  /** Stops every watcher: not all who watch come back to stop. */
  release(): Promise<void>;
}

/** A sandbox's files as TanStack asks for them; what it removes may be gone already, what it moves to is replaced. */
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
    remove: (path) => files.remove(path, { recursive: true }).catch(unlessMissing),
    rename: (from, to) => files.move(from, to, { overwrite: true }),
    exists: (path) =>
      files.stat(path).then(
        () => true,
        (error: unknown) => (unlessMissing(error), false),
      ),
    watch: async (path, onEvent) => {
      const { folders, paths } = sandbox;
      if (!folders) throw await toUnsupported(name, "fs.watch", "Its files do not lie on this host.");
      const host = { ...folders, outputs: posix.join(folders.workspace, "output") };
      const mapped = toMappedPath(path, paths, paths.workspace, host).host;
      const located = await files.locate?.(path);
      const folder = located ?? mapped;
      const tell = (change: FileChange): void => onEvent({ type: change.type, path: change.path });
      const watcher = await watchFolder({ folder, real: located !== undefined, shown: path, onEvent: tell });
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

function unlessMissing(error: unknown): void {
  if (!(error instanceof SluiceError) || error.code !== "file_not_found") throw error;
}
