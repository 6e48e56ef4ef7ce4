import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { EventDraft, SluiceEvent } from "../contract/index.ts";
import type { EventLog } from "../log/port.ts";
import { readKept } from "../log/read-kept.ts";
import {
  createFileHookRunner,
  createWatcher,
  workspaceDiff,
  type FileChange,
  type FileHookRunner,
  type FileHooks,
  type TreeSnapshot,
  type Watcher,
} from "../sandbox/index.ts";
import type { Logger } from "./deps.ts";

export interface ObserverOptions {
  readonly log: EventLog;
  readonly session: string;
  /** The workspace on this host, by a path without symlinks, and as the agent names it. */
  readonly folder: string;
  readonly name: string;
  /** Whether the agent is kept from the rest of the host: then its repository may not lead there either. */
  readonly isolated: boolean;
  /** Whose the workspace is, where that is not the server's own user. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  readonly hooks: FileHooks | undefined;
  /** What was known at the last cut, for a later life of the server. */
  readonly memoFile: string;
  readonly logger: Logger;
}

const SMALL_MEMO_BYTES = 64 * 1024;

interface Memo {
  /** The head of the log when the snapshot was taken. */
  readonly at: number;
  readonly snapshot: TreeSnapshot;
}

/** Sees what happens to the files of a session, whoever does it, and whoever was not there when it happened. */
export class Observer {
  readonly #options: ObserverOptions;
  readonly #watcher: Watcher;
  readonly #hooks: FileHookRunner | undefined;
  readonly #abort = new AbortController();
  #memo: string | undefined;
  #memoBytes = 0;
  #writing: Promise<void> | undefined;

  private constructor(options: ObserverOptions) {
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

  /** `head` is the session's; nothing that happens to a file from here on is missed. */
  static async start(options: ObserverOptions, head: number): Promise<Observer> {
    const observer = new Observer(options);
    const memo = await readMemo(options.memoFile);
    await observer.#watcher.ready;
    try {
      if (!memo) observer.remember(head);
      else await observer.#watcher.restore(memo.snapshot, await reportedSince(options, memo.at));
    } catch (error) {
      // A memo that is damaged is none.
      options.logger({
        level: "warn",
        message: "what was known of the files cannot be read",
        session: options.session,
        error: String(error),
      });
      observer.remember(head);
    }
    return observer;
  }

  /** Calls `act` whenever there is something to take, until it is stopped. */
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

  /** All that has happened up to now, and what it comes to: said before a turn's end. */
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

  /** Writes down what is known at this head of the log, beside everything else; only the latest counts. */
  remember(head: number): void {
    // The folder that it lies in may be removed by then.
    if (this.#abort.signal.aborted) return;
    const memo: Memo = { at: head, snapshot: this.#watcher.snapshot() };
    this.#memo = JSON.stringify(memo);
    this.#memoBytes = this.#memo.length;
    this.#writing ??= this.#writeMemo().finally(() => (this.#writing = undefined));
  }

  /** The same where it costs next to nothing: the fresher the memo, the less has to be guessed after a crash. */
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
      // Without it a file may be told of twice after a crash; that is no reason to stop anything.
      logger({
        level: "warn",
        message: "what is known of the files was not kept",
        session,
        error: String(error),
      });
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

/** What the log has told of files since the memo, so that it is not told again. */
async function reportedSince({ log, session, name }: ObserverOptions, at: number): Promise<FileChange[]> {
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
