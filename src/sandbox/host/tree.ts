import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { workspaceDiff, type WorkspaceDiff } from "../diff/workspace-diff.ts";
import type { HostSandbox, SandboxTree, TreeWatch, TreeWatchOptions } from "../port.ts";
import type { FileChange, FileHookRunner, FileHooks } from "../watch/changes.ts";
import { createFileHookRunner } from "../watch/hooks.ts";
import type { TreeSnapshot } from "../watch/tree.ts";
import { createWatcher, type Watcher } from "../watch/watcher.ts";

/** The files of a sandbox on this machine as a whole. */
export class HostTree implements SandboxTree {
  readonly #sandbox: Pick<HostSandbox, "folders" | "isolated" | "owner">;

  constructor(sandbox: Pick<HostSandbox, "folders" | "isolated" | "owner">) {
    this.#sandbox = sandbox;
  }

  get roots(): { workspace: string; home: string } {
    const { workspace, home } = this.#sandbox.folders;
    return { workspace, home };
  }

  watch(options: TreeWatchOptions): Promise<TreeWatch> {
    return HostTreeWatch.start(this.#sandbox.folders.workspace, options);
  }

  diff({ scratch }: { scratch: string }): Promise<WorkspaceDiff | undefined> {
    const { folders, isolated, owner } = this.#sandbox;
    return workspaceDiff(folders.workspace, { confined: isolated, owner, scratch });
  }

  hooks(hooks: FileHooks, log: (message: string, error: unknown) => void): FileHookRunner {
    const { folders, isolated, owner } = this.#sandbox;
    return createFileHookRunner({
      folder: folders.workspace,
      real: true,
      confined: isolated,
      owner,
      hooks,
      log,
    });
  }
}

const SMALL_MEMO_BYTES = 64 * 1024;

interface Memo {
  /** The head of the log at this state of the files. */
  readonly at: number;
  readonly snapshot: TreeSnapshot;
}

/** The watch of a folder of this machine, and its state in a file for the next server. */
class HostTreeWatch implements TreeWatch {
  readonly #options: TreeWatchOptions;
  readonly #watcher: Watcher;
  #isStopped = false;
  #memo: string | undefined;
  #memoBytes = 0;
  #writing: Promise<void> | undefined;

  private constructor(folder: string, options: TreeWatchOptions) {
    this.#options = options;
    this.#watcher = createWatcher({ folder, real: true, onError: options.warn });
  }

  static async start(folder: string, options: TreeWatchOptions): Promise<HostTreeWatch> {
    const watch = new HostTreeWatch(folder, options);
    const memo = await readMemo(options.memoFile);
    await watch.#watcher.ready;
    try {
      if (!memo) watch.remember(options.head);
      else await watch.#watcher.restore(memo.snapshot, await options.reported(memo.at));
    } catch (error) {
      // A damaged memo is ignored.
      options.warn({
        reason: "memo",
        detail: `the stored state of the files cannot be read: ${String(error)}`,
      });
      watch.remember(options.head);
    }
    return watch;
  }

  take(): FileChange[] {
    return this.#watcher.take();
  }

  moved(options: { signal: AbortSignal }): Promise<void> {
    return this.#watcher.moved(options);
  }

  flush(): Promise<void> {
    return this.#watcher.flush();
  }

  remember(head: number, { onlyIfCheap = false }: { onlyIfCheap?: boolean } = {}): void {
    // The folder of the memo may be removed after the stop.
    if (this.#isStopped || (onlyIfCheap && this.#memoBytes > SMALL_MEMO_BYTES)) return;
    const memo: Memo = { at: head, snapshot: this.#watcher.snapshot() };
    this.#memo = JSON.stringify(memo);
    this.#memoBytes = this.#memo.length;
    this.#writing ??= this.#writeMemo().finally(() => (this.#writing = undefined));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#watcher.stop();
    await this.#writing;
  }

  async #writeMemo(): Promise<void> {
    const { memoFile, warn } = this.#options;
    try {
      await mkdir(dirname(memoFile), { recursive: true, mode: 0o700 });
      for (let text = this.#memo; text !== undefined; text = this.#memo) {
        this.#memo = undefined;
        await writeFile(`${memoFile}.new`, text, { mode: 0o600 });
        await rename(`${memoFile}.new`, memoFile);
      }
    } catch (error) {
      // A crash after this failure may report a change twice; it has no other effect.
      warn({ reason: "memo", detail: `the state of the files could not be stored: ${String(error)}` });
    }
  }
}

async function readMemo(file: string): Promise<Memo | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as Memo;
  } catch {
    return undefined;
  }
}
