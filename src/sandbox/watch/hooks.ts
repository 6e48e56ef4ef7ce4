import { realpathSync } from "node:fs";
import { readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { filesDiff } from "../diff/files-diff.ts";
import { readHeadFile } from "../diff/private-repository.ts";
import { openRegular, readUpTo } from "../host/files/open-file.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import type { Owner } from "../port.ts";
import {
  Backlog,
  type FileChange,
  type FileHookEvent,
  type FileHookRunner,
  type FileHooks,
} from "./changes.ts";

const CACHE_BYTES = 16 * 1024 * 1024;
const MAX_FILE_BYTES = 1024 * 1024;
const PATIENCE_MS = 30_000;

export interface FileHookRunnerOptions {
  readonly folder: string;
  /** Whether the path of the folder has no symlink in it. One that is put there later is not followed. */
  readonly real?: boolean;
  /** Whether the folder's repository is untrusted and may not point elsewhere; true by default. */
  readonly confined?: boolean | undefined;
  /** The owner of the folder, where that is not the server's own user. */
  readonly owner?: Owner | undefined;
  readonly hooks: FileHooks;
  /** Called for every hook that fails or does not return in time. */
  readonly log: (message: string, error: unknown) => void;
  readonly cacheBytes?: number;
  readonly maxFileBytes?: number;
  /** How long the next hook waits for one that has not returned. */
  readonly patienceMs?: number;
}

export function createFileHookRunner(options: FileHookRunnerOptions): FileHookRunner {
  return new HookRunner(options);
}

const HOOK_OF = { create: "onFileCreate", change: "onFileChange", delete: "onFileDelete" } as const;

class HookRunner implements FileHookRunner {
  readonly #options: FileHookRunnerOptions;
  /** The watched folder, by a path without symlinks. */
  readonly #root: string;
  readonly #contents: Contents;
  readonly #backlog = new Backlog();
  #pump: Promise<void> | undefined;
  #stopped = false;

  constructor(options: FileHookRunnerOptions) {
    this.#options = options;
    this.#root = options.real ? options.folder : realpathSync(options.folder);
    this.#contents = new Contents(options.cacheBytes ?? CACHE_BYTES);
  }

  deliver(changes: Iterable<FileChange>): void {
    if (this.#stopped || Object.values(this.#options.hooks).every((hook) => hook === undefined)) return;
    for (const change of changes) this.#backlog.add(change);
    this.#pump ??= this.#work()
      .catch((error: unknown) => this.#say("The hooks for files cannot be called.", error))
      .finally(() => (this.#pump = undefined));
  }

  async settled(): Promise<void> {
    while (this.#pump) await this.#pump;
  }

  stop(): void {
    this.#stopped = true;
  }

  async #work(): Promise<void> {
    while (this.#backlog.size > 0) {
      for (const change of this.#backlog.take()) {
        if (this.#stopped) return;
        const event = await this.#toEvent(change);
        await this.#call("onFile", event);
        await this.#call(HOOK_OF[change.type], event);
      }
    }
  }

  /** Makes a hook's event from a change, and keeps the file's text for its next change. */
  async #toEvent(change: FileChange): Promise<FileHookEvent> {
    const { maxFileBytes = MAX_FILE_BYTES, confined = true, owner } = this.#options;
    const root = this.#root;
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

  async #call(name: keyof FileHooks, event: FileHookEvent): Promise<void> {
    const hook = this.#options.hooks[name];
    if (!hook || this.#stopped) return;
    const returned = (async () => hook(event))().catch((error: unknown) => {
      this.#say(`The hook ${name} has failed for ${event.path}.`, error);
    });
    const patience = this.#options.patienceMs ?? PATIENCE_MS;
    if (!(await isLate(returned, patience))) return;
    this.#say(`The hook ${name} is not done with ${event.path} after ${patience} ms; the others go on.`);
  }

  #say(message: string, error?: unknown): void {
    try {
      this.#options.log(message, error);
    } catch {
      // A failing logger must not stop the hooks.
    }
  }
}

async function isLate(work: Promise<unknown>, patienceMs: number): Promise<boolean> {
  const done = new AbortController();
  const late = sleep(patienceMs, true, { ref: false, signal: done.signal }).catch(() => false);
  return Promise.race([work.then(() => false), late]).finally(() => done.abort());
}

function lazily<T>(read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => (result ??= read());
}

/** The last known contents of files, up to a number of bytes. Beyond it, the oldest contents are dropped. */
class Contents {
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
async function readContent(folder: string, path: string, maxBytes: number): Promise<Buffer | undefined> {
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
