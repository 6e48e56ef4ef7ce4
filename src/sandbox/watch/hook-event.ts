import { readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { filesDiff } from "../diff/files-diff.ts";
import { readHeadFile } from "../diff/private-repository.ts";
import { openRegular, readUpTo } from "../host/files/open-file.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import type { FileChange } from "./changes.ts";

/** The argument of a hook. `before` and `diff` are computed on request, at most once. */
export interface FileHookEvent extends FileChange {
  /** The text before the change; undefined for a new file, and where it is not known. */
  before(): Promise<string | undefined>;
  /** The text after the change; undefined for a deleted file, and for one that is too large. */
  after(): Promise<string | undefined>;
  /** The change as a unified diff; undefined where one of the texts is not known. */
  diff(): Promise<string | undefined>;
}

interface HookEventsOptions {
  /** The watched folder, by a path without symlinks. */
  readonly root: string;
  readonly cacheBytes: number;
  readonly maxFileBytes: number;
  /** Whether the folder's repository is untrusted and may not point elsewhere; true by default. */
  readonly confined?: boolean | undefined;
  /** The owner of the folder, where that is not the server's own user. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
}

/** Makes hook events from changes, and keeps each file's text for its next change. */
export class HookEvents {
  readonly #options: HookEventsOptions;
  readonly #contents: Contents;

  constructor(options: HookEventsOptions) {
    this.#options = options;
    this.#contents = new Contents(options.cacheBytes);
  }

  async from(change: FileChange): Promise<FileHookEvent> {
    const { root, maxFileBytes, confined = true, owner } = this.#options;
    const { type, path } = change;
    const earlier = this.#contents.get(path);
    // Read now, even if no hook asks for it: it is the text before the next change.
    const now = type === "delete" ? undefined : await readContent(root, path, maxFileBytes);
    this.#contents.set(path, now);
    const before = lazily(async () => {
      if (type === "create") return undefined;
      const known = earlier ?? (await readHeadFile(root, path, { maxBytes: maxFileBytes, confined, owner }));
      return known?.toString("utf8");
    });
    const after = async (): Promise<string | undefined> => now?.toString("utf8");
    const diff = lazily(async () => {
      const [was, is] = [await before(), await after()];
      if (was === undefined && type !== "create") return undefined;
      if (is === undefined && type !== "delete") return undefined;
      return filesDiff(was, is, path);
    });
    return { ...change, before, after, diff };
  }
}

function lazily<T>(read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => (result ??= read());
}

/** The last known contents of files, up to a number of bytes. Beyond it the contents that were set longest ago go. */
export class Contents {
  readonly #maxBytes: number;
  readonly #known = new Map<string, Buffer>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(path: string): Buffer | undefined {
    return this.#known.get(path);
  }

  set(path: string, content: Buffer | undefined): void {
    this.#forget(path);
    if (!content || content.length > this.#maxBytes) return;
    this.#known.set(path, content);
    this.#bytes += toCost(path, content);
    for (const [oldest] of this.#known) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#forget(oldest);
    }
  }

  #forget(path: string): void {
    const content = this.#known.get(path);
    if (!content) return;
    this.#known.delete(path);
    this.#bytes -= toCost(path, content);
  }
}

/** The memory of an entry: an empty file has a cost, too. */
function toCost(path: string, content: Buffer): number {
  return content.length + 2 * path.length + 100;
}

/** The content of a file; undefined where it is larger than `maxBytes`. A symlink reads as its target's path. */
export async function readContent(
  folder: string,
  path: string,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const open = tryOpen(join(folder, dirname(path)));
  if (open === undefined) return undefined;
  const file = open.at(basename(path));
  try {
    const handle = await openRegular(file);
    return await readUpTo(handle, maxBytes).finally(() => handle.close());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ELOOP") return undefined;
    return Buffer.from(await readlink(file).catch(() => ""));
  } finally {
    open.close();
  }
}

function tryOpen(folder: string): OpenFolder | undefined {
  try {
    return OpenFolder.openReal(folder, { readable: true });
  } catch {
    return undefined;
  }
}
