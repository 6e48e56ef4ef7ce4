import { filesDiff } from "../diff/filesDiff.ts";
import { readHeadFile } from "../diff/headFile.ts";
import type { FileChange } from "./change.ts";
import { Contents } from "./contents.ts";
import { readContent } from "./readContent.ts";

/** What a hook is called with. Each text is made when it is asked for, and at most once. */
export interface FileHookEvent extends FileChange {
  /** The text before the change; nothing for a new file, and where it is not known. */
  before(): Promise<string | undefined>;
  /** The text after it; nothing for a deleted file, and for one that is too large. */
  after(): Promise<string | undefined>;
  /** Both as a unified diff; nothing where one of them is not known. */
  diff(): Promise<string | undefined>;
}

export interface HookEventsOptions {
  /** Without symlinks in it. */
  readonly root: string;
  readonly cacheBytes: number;
  readonly maxFileBytes: number;
  /** Whether the repository in it may not be trusted to lead elsewhere; it may not, unless said otherwise. */
  readonly confined?: boolean | undefined;
  /** Whose the folder is, where that is not the server's own user. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
}

/** Makes a hook's event of a change, remembering texts from one change of a file to its next. */
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
    // Read at once, asked for or not: it is the text before the next change.
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
