import { realpathSync } from "node:fs";
import { Backlog, type FileChange } from "./changes.ts";
import { HookEvents, type FileHookEvent } from "./hook-event.ts";

const CACHE_BYTES = 16 * 1024 * 1024;
const MAX_FILE_BYTES = 1024 * 1024;
const PATIENCE_MS = 30_000;

export type FileHook = (event: FileHookEvent) => unknown;

export interface FileHooks {
  readonly onFile?: FileHook;
  readonly onFileCreate?: FileHook;
  readonly onFileChange?: FileHook;
  readonly onFileDelete?: FileHook;
}

export interface FileHookRunnerOptions {
  readonly folder: string;
  /** Whether the path of the folder has no symlink in it. One that is put there later is not followed. */
  readonly real?: boolean;
  /** Whether the folder's repository is untrusted and may not point elsewhere; true by default. */
  readonly confined?: boolean | undefined;
  /** The owner of the folder, where that is not the server's own user. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
  readonly hooks: FileHooks;
  /** Called for every hook that fails or does not return in time. */
  readonly log: (message: string, error: unknown) => void;
  readonly cacheBytes?: number;
  readonly maxFileBytes?: number;
  /** How long the next hook waits for one that has not returned. */
  readonly patienceMs?: number;
}

/** Calls the application's hooks, one change after the other. A slow or failing hook affects nothing else. */
export interface FileHookRunner {
  /** Queues the changes and returns. While hooks are slow, the queue has one change per path. */
  deliver(changes: Iterable<FileChange>): void;
  /** Resolves when the hooks were called for all delivered changes. */
  settled(): Promise<void>;
  /** No further hook is called. */
  stop(): void;
}

export function createFileHookRunner(options: FileHookRunnerOptions): FileHookRunner {
  return new HookRunner(options);
}

const HOOK_OF = { create: "onFileCreate", change: "onFileChange", delete: "onFileDelete" } as const;

class HookRunner implements FileHookRunner {
  readonly #options: FileHookRunnerOptions;
  readonly #events: HookEvents;
  readonly #backlog = new Backlog();
  #pump: Promise<void> | undefined;
  #stopped = false;

  constructor(options: FileHookRunnerOptions) {
    this.#options = options;
    const { folder, real, cacheBytes = CACHE_BYTES, maxFileBytes = MAX_FILE_BYTES } = options;
    const root = real ? folder : realpathSync(folder);
    const { confined, owner } = options;
    this.#events = new HookEvents({ root, cacheBytes, maxFileBytes, confined, owner });
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
        const event = await this.#events.from(change);
        await this.#call("onFile", event);
        await this.#call(HOOK_OF[change.type], event);
      }
    }
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
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<true>((resolve) => {
    timer = setTimeout(() => resolve(true), patienceMs).unref();
  });
  try {
    return await Promise.race([work.then(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}
