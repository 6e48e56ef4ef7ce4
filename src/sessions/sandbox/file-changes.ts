import { dirname } from "node:path";
import type { EventDraft, SluiceEvent } from "../../contract/index.ts";
import { readKept, type EventLog } from "../../log/port.ts";
import type { FileChange, FileHookRunner, FileHooks } from "../../sandbox/index.ts";
import type { SandboxTree, TreeWatch } from "../../sandbox/port.ts";
import type { Logger } from "../deps.ts";

export interface FileChangesOptions {
  readonly log: EventLog;
  readonly session: string;
  readonly tree: SandboxTree;
  /** The agent's name for the workspace. */
  readonly name: string;
  readonly hooks: FileHooks | undefined;
  /** The file with the state of the workspace, for the next server. */
  readonly memoFile: string;
  readonly logger: Logger;
}

/** The changes of a session's files, by any process, also those while no server ran. */
export class FileChanges {
  readonly #options: FileChangesOptions;
  readonly #watch: TreeWatch;
  readonly #hooks: FileHookRunner | undefined;
  readonly #abort = new AbortController();

  private constructor(options: FileChangesOptions, watch: TreeWatch) {
    const { tree, hooks, logger, session } = options;
    this.#options = options;
    this.#watch = watch;
    if (!hooks) return;
    this.#hooks = tree.hooks?.(hooks, (message, error) =>
      logger({ level: "error", message, session, error: String(error) }),
    );
    if (!this.#hooks) {
      const message = "the hooks for files are not called: this sandbox is on another machine";
      logger({ level: "warn", message, session });
    }
  }

  /**
   * From here on no change is missed. `head` is the head of the session's log. Undefined where the sandbox cannot be
   * watched.
   */
  static async start(options: FileChangesOptions, head: number): Promise<FileChanges | undefined> {
    const { tree, memoFile, logger, session } = options;
    const watch = await tree.watch?.({
      memoFile,
      head,
      reported: (since) => reportedSince(options, since),
      warn: ({ reason, detail }) => logger({ level: "warn", message: detail, reason, session }),
    });
    return watch && new FileChanges(options, watch);
  }

  /** Calls `act` for every new change, until the stop. */
  async follow(act: () => Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      await this.#watch.moved({ signal }).catch(() => {});
      if (!signal.aborted) await act();
    }
  }

  /** The changes since the last time, as events. */
  take(): EventDraft[] {
    const changes = this.#watch.take();
    this.#hooks?.deliver(changes);
    return changes.map((change) => toEvent(change, this.#options.name));
  }

  /** All changes up to now, and the diff of the workspace: for the end of a turn. */
  async drain(): Promise<EventDraft[]> {
    await this.#watch.flush();
    const changes = this.take();
    const { tree, memoFile, logger, session } = this.#options;
    const found = await tree.diff?.({ scratch: dirname(memoFile) }).catch((error: unknown) => {
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
    this.#watch.remember(head);
  }

  /** As `remember`, if that is cheap. A fresh state leaves fewer changes to find after a crash. */
  rememberIfSmall(head: number): void {
    this.#watch.remember(head, { onlyIfCheap: true });
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#watch.stop();
    this.#hooks?.stop();
  }
}

function toEvent({ type, path, timestamp }: FileChange, workspace: string): EventDraft {
  return { type: "file.changed", source: "daemon", data: { type, path: `${workspace}/${path}`, timestamp } };
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
