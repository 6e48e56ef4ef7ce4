import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { EventDraft, SluiceEvent } from "../../contract/index.ts";
import { readKept, type EventLog } from "../../log/port.ts";
import {
  createFileHookRunner,
  createWatcher,
  workspaceDiff,
  type FileChange,
  type FileHookRunner,
  type FileHooks,
  type TreeSnapshot,
  type Watcher,
} from "../../sandbox/index.ts";
import type { Logger } from "../deps.ts";

export interface FileChangesOptions {
  readonly log: EventLog;
  readonly session: string;
  /** The workspace on this host, by a path without symlinks, and the agent's name for it. */
  readonly folder: string;
  readonly name: string;
  /** Whether the sandbox is isolated: then a git repository in it may not lead to other files of the host. */
  readonly isolated: boolean;
  /** The user of the workspace's files, where that is not the server's own. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  readonly hooks: FileHooks | undefined;
  /** The file with the state of the workspace, for the next server. */
  readonly memoFile: string;
  readonly logger: Logger;
}

const SMALL_MEMO_BYTES = 64 * 1024;

interface Memo {
  /** The head of the log at this state of the files. */
  readonly at: number;
  readonly snapshot: TreeSnapshot;
}

/** The changes of a session's files, by any process, also those while no server ran. */
export class FileChanges {
  readonly #options: FileChangesOptions;
  readonly #watcher: Watcher;
  readonly #hooks: FileHookRunner | undefined;
  readonly #abort = new AbortController();
  #memo: string | undefined;
  #memoBytes = 0;
  #writing: Promise<void> | undefined;

  private constructor(options: FileChangesOptions) {
    this.#options = options;
    this.#watcher = createWatcher({
      folder: options.folder,
      real: true,
      onError: ({ reason, detail }) =>
        options.logger({ level: "warn", message: detail, reason, session: options.session }),
    });
    this.#hooks =
      options.hooks &&
      createFileHookRunner({
        folder: options.folder,
        real: true,
        confined: options.isolated,
        owner: options.owner,
        hooks: options.hooks,
        log: (message, error) =>
          options.logger({ level: "error", message, session: options.session, error: String(error) }),
      });
  }

  /** From here on no change is missed. `head` is the head of the session's log. */
  static async start(options: FileChangesOptions, head: number): Promise<FileChanges> {
    const changes = new FileChanges(options);
    const memo = await readMemo(options.memoFile);
    await changes.#watcher.ready;
    try {
      if (!memo) changes.remember(head);
      else await changes.#watcher.restore(memo.snapshot, await reportedSince(options, memo.at));
    } catch (error) {
      // A damaged memo is ignored.
      const message = "the stored state of the files cannot be read";
      options.logger({ level: "warn", message, session: options.session, error: String(error) });
      changes.remember(head);
    }
    return changes;
  }

  /** Calls `act` for every new change, until the stop. */
  async follow(act: () => Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      await this.#watcher.moved({ signal }).catch(() => {});
      if (!signal.aborted) await act();
    }
  }

  /** The changes since the last time, as events. */
  take(): EventDraft[] {
    const changes = this.#watcher.take();
    this.#hooks?.deliver(changes);
    return changes.map((change) => toEvent(change, this.#options.name));
  }

  /** All changes up to now, and the diff of the workspace: for the end of a turn. */
  async drain(): Promise<EventDraft[]> {
    await this.#watcher.flush();
    const changes = this.take();
    const { folder, isolated, owner, memoFile, logger, session } = this.#options;
    const how = { confined: isolated, owner, scratch: dirname(memoFile) };
    const found = await workspaceDiff(folder, how).catch((error: unknown) => {
      logger({ level: "warn", message: "the diff could not be made", session, error: String(error) });
      return undefined;
    });
    if (!found || found.diff === "") return changes;
    return [
      ...changes,
      { type: "workspace.diffed", source: "daemon", data: { path: ".", diff: found.diff } },
    ];
  }

  /** Stores the state of the files at this head of the log, in the background. Only the latest counts. */
  remember(head: number): void {
    // The folder of the memo may be removed after the stop.
    if (this.#abort.signal.aborted) return;
    const memo: Memo = { at: head, snapshot: this.#watcher.snapshot() };
    this.#memo = JSON.stringify(memo);
    this.#memoBytes = this.#memo.length;
    this.#writing ??= this.#writeMemo().finally(() => (this.#writing = undefined));
  }

  /** As `remember`, if that is cheap. A fresh state leaves fewer changes to find after a crash. */
  rememberIfSmall(head: number): void {
    if (this.#memoBytes <= SMALL_MEMO_BYTES) this.remember(head);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#watcher.stop();
    this.#hooks?.stop();
    await this.#writing;
  }

  async #writeMemo(): Promise<void> {
    const { memoFile, logger, session } = this.#options;
    try {
      await mkdir(dirname(memoFile), { recursive: true, mode: 0o700 });
      for (let text = this.#memo; text !== undefined; text = this.#memo) {
        this.#memo = undefined;
        await writeFile(`${memoFile}.new`, text, { mode: 0o600 });
        await rename(`${memoFile}.new`, memoFile);
      }
    } catch (error) {
      // Without it a change may be reported twice after a crash, and nothing else.
      const message = "the state of the files could not be stored";
      logger({ level: "warn", message, session, error: String(error) });
    }
  }
}

function toEvent({ type, path, timestamp }: FileChange, workspace: string): EventDraft {
  return { type: "file.changed", source: "daemon", data: { type, path: `${workspace}/${path}`, timestamp } };
}

async function readMemo(file: string): Promise<Memo | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as Memo;
  } catch {
    return undefined;
  }
}

/** The changes that the log has since the memo: they must not be reported again. */
async function reportedSince({ log, session, name }: FileChangesOptions, at: number): Promise<FileChange[]> {
  const reported: FileChange[] = [];
  const types = new Set(["file.changed"] as const);
  for (let after = at; ;) {
    const page = await readKept(log, session, { after, limit: 1000, types });
    for (const stored of page) {
      after = stored.sequence;
      const event = JSON.parse(stored.body) as SluiceEvent;
      if (event.type !== "file.changed") continue;
      reported.push({ ...event.data, path: event.data.path.slice(name.length + 1) });
    }
    if (page.length === 0) return reported;
  }
}
