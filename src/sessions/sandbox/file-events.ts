import { join } from "node:path";
import { type EventDraft, SluiceError } from "../../contract/index.ts";
import type { HarnessFact } from "../../harness/port.ts";
import type { SessionContext } from "../context.ts";
import type { SessionDeps } from "../deps.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { HarnessProcess } from "../process/process.ts";
import { mustBeDamage, damageEvent } from "../process/recovery.ts";
import { EarlierTexts, isToolItem } from "./earlier-texts.ts";
import { FileChanges } from "./file-changes.ts";

/** The state of a sandbox's files on this machine, for the next watch. */
export function fileMemo({ spoolRoot }: Pick<SessionDeps, "spoolRoot">, session: string): string {
  return join(spoolRoot, session, "files.json");
}

/**
 * The file events of one agent process: changes, the diff and checkpoint of a turn, the texts that its tools overwrite.
 */
export class FileEvents {
  readonly #context: SessionContext;
  readonly #process: HarnessProcess;
  readonly #earlier: EarlierTexts;
  #changes: FileChanges | undefined;

  constructor(context: SessionContext, process: HarnessProcess) {
    this.#context = context;
    this.#process = process;
    this.#earlier = new EarlierTexts(process.sandbox, (text) => process.hide(text));
  }

  async start(): Promise<void> {
    const { inBackground } = this.#context;
    await this.#watch().catch((error: unknown) => {
      mustBeDamage(this.#context, error);
      const damage = damageEvent(this.#context, "changes of files are not reported from here on", error);
      return this.#context.commit(this.#context.writer.drafts([damage]));
    });
    // Before its first turn an agent has written nothing.
    inBackground(this.#earlier.readAhead(this.#turnStart() ?? Number.POSITIVE_INFINITY));
  }

  async stop(): Promise<void> {
    await this.#changes?.stop();
  }

  /** The facts, with a diff in each tool item that overwrites a file. No promise for a line without tool items. */
  withDiffs(facts: readonly HarnessFact[]): readonly HarnessFact[] | Promise<readonly HarnessFact[]> {
    if (!facts.some(isToolItem)) return facts;
    // Outside of a turn, every file counts as changed by the agent.
    return this.#earlier.withDiffs(facts, this.#turnStart() ?? 0);
  }

  /** Adds the last changes and the diff. With `autoCheckpoint`, a completed turn also gets a checkpoint, or its error. */
  async endTurn(drafts: Drafts, { isCompleted }: { isCompleted: boolean }): Promise<void> {
    const { writer, inBackground } = this.#context;
    if (!writer.fold.turn) return;
    const changes = (await this.#changes?.drain()) ?? [];
    inBackground(this.#earlier.changed(changes, { inTurn: true }));
    drafts.addAll(changes.map((event) => this.#hide(event)));
    if (!isCompleted || writer.spec.autoCheckpoint !== true) return;
    drafts.add(await this.#checkpoint(writer.fold.turn.options?.checkpointComment));
  }

  /** To be called after the commit of a turn's end. */
  turnEnded(): void {
    this.#context.inBackground(this.#earlier.endTurn());
    this.#changes?.remember(this.#context.writer.fold.head);
  }

  async #checkpoint(comment: string | undefined): Promise<EventDraft> {
    const { checkpointer, deps, writer } = this.#context;
    try {
      return (await checkpointer.create(this.#process.sandbox, comment)).event;
    } catch (error) {
      const message = "no checkpoint was made";
      deps.logger({ level: "warn", message, session: writer.row.id, error: String(error) });
      // The messages of other errors may name files of the server.
      const why = error instanceof SluiceError ? error.message : "the server's log has the cause";
      const data = { code: "checkpoint_failed", message: `${message}: ${why}` };
      return { type: "error", source: "daemon", data };
    }
  }

  #turnStart(): number | undefined {
    return this.#context.writer.fold.turn?.startedAt;
  }

  /** Redacts the event: an agent may write its secrets into a file, or into its name. */
  #hide(event: EventDraft): EventDraft {
    if (event.type === "file.changed")
      return { ...event, data: { ...event.data, path: this.#process.hide(event.data.path) } };
    if (event.type !== "workspace.diffed") return event;
    const { path, diff } = event.data;
    return {
      ...event,
      data: { ...event.data, path: this.#process.hide(path), diff: this.#process.hide(diff) },
    };
  }

  async #watch(): Promise<void> {
    const { deps, writer, exclusive, commit, inBackground } = this.#context;
    const { tree, paths } = this.#process.sandbox;
    const { row, fold } = writer;
    if (!tree || row.spec.watch === false) return;
    const changes = await FileChanges.start(
      {
        log: deps.log,
        session: row.id,
        tree,
        name: paths.workspace,
        hooks: deps.fileHooks,
        memoFile: fileMemo(deps, row.id),
        logger: deps.logger,
      },
      fold.head,
    );
    if (!changes) return;
    this.#changes = changes;
    const tell = (): Promise<void> =>
      exclusive(async () => {
        const events = changes.take();
        inBackground(this.#earlier.changed(events, { inTurn: this.#turnStart() !== undefined }));
        await commit(writer.drafts(events.map((event) => this.#hide(event))));
        changes.rememberIfSmall(writer.fold.head);
      });
    inBackground(changes.follow(tell));
  }
}
