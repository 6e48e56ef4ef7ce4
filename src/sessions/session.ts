import { SluiceError, type EventData, type EventDraft } from "../contract/index.ts";
import type { SessionEntry, SessionInfo } from "../contract/index.ts";
import type { SessionRow } from "../log/port.ts";
import { accept } from "./inbox/accept.ts";
import { changeSession, type SessionChange } from "./fold/change.ts";
import { interrupt } from "./turn/interrupt.ts";
import { TurnEnds } from "./turn/turn-end.ts";
import { Commands, endCommand, loseCommand } from "./sandbox/commands.ts";
import type { SessionContext } from "./context.ts";
import { messageOf } from "./failure.ts";
import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./fold/drafts.ts";
import { endSession, endTurns } from "./process/ending.ts";
import { isActive, isResting } from "./fold/session-fold.ts";
import { Checkpointer } from "./sandbox/checkpoint.ts";
import { Lock } from "./lock.ts";
import { opening, SessionWriter, type CommitExtra } from "./fold/writer.ts";
import type { InterruptOptions, KeyOptions, SubmitOptions, Submitted } from "./port.ts";
import { loseProcess } from "./process/recovery.ts";
import { refuseEnded, reopening } from "./refusals.ts";
import { replyOnce, type Reply } from "./actions/replies.ts";
import { Runner } from "./process/runner.ts";
import { abandonMove } from "./sandbox/move.ts";
import { SessionSandbox } from "./sandbox/session-sandbox.ts";
import { Workspace } from "./sandbox/workspace.ts";
import { InputQueue } from "./inbox/queue-change.ts";
import type { Submission } from "./inbox/submission.ts";
import { BudgetKeeper } from "./upkeep/budget-keeper.ts";
import { Timekeeper } from "./upkeep/timekeeper.ts";
import { ToolCalls } from "./actions/tool-calls.ts";

/** Called once, for a session that failed and has to be opened again. */
type OnGivenUp = (session: Session, error: unknown) => void;

/**
 * One live session. Every change happens under its lock: it is appended first and acted on afterwards. After a failed
 * append the object is given up, and the session is opened again from its log, as after a crash.
 */
export class Session {
  readonly id: string;
  /** The calls of the application's tools. */
  readonly tools: ToolCalls;
  readonly workspace: Workspace;
  readonly queue: InputQueue;
  readonly #deps: SessionDeps;
  readonly #onGivenUp: OnGivenUp;
  readonly #context: SessionContext;
  readonly #writer: SessionWriter;
  readonly #sandbox: SessionSandbox;
  readonly #runner: Runner;
  readonly #commands: Commands;
  readonly #time: Timekeeper;
  readonly #budget: BudgetKeeper;
  readonly #lock = new Lock();
  readonly #turnEnds = new TurnEnds();
  /** Set once the session is closed: every later call fails with it. */
  #closed: SluiceError | undefined;

  private constructor(deps: SessionDeps, writer: SessionWriter, onGivenUp: OnGivenUp) {
    this.id = writer.row.id;
    this.#deps = deps;
    this.#onGivenUp = onGivenUp;
    this.#writer = writer;
    this.#context = {
      deps,
      checkpointer: new Checkpointer(deps.checkpoints(writer.row.spec.shelf), writer),
      writer,
      isClosed: () => this.isClosed,
      isBusy: () => this.isBusy,
      exclusive: (task) => this.#exclusive(task),
      commit: (drafts, extra) => this.#commit(drafts, extra),
      inBackground: (task) => this.#inBackground(task),
      giveUp: (error) => this.#giveUp(error),
    };
    this.#sandbox = new SessionSandbox(this.#context);
    this.#runner = new Runner(this.#context, this.#sandbox);
    this.queue = new InputQueue(this.#context, this.#runner);
    this.tools = new ToolCalls(this.#context, this.#runner);
    this.#commands = new Commands(this.#context, this.#runner, this.#sandbox);
    this.workspace = new Workspace(this.#context, {
      sandbox: this.#sandbox,
      runner: this.#runner,
      commands: this.#commands,
      sleep: () => this.sleep(),
    });
    this.#time = new Timekeeper(this.#context, this.#runner, () => this.sleep());
    this.#budget = new BudgetKeeper(this.#context, this.#runner, this.#sandbox);
  }

  /** Claims the session, and picks up its running process and command. On failure nothing is held. */
  static async open(deps: SessionDeps, row: SessionRow, onGivenUp: OnGivenUp): Promise<Session> {
    const session = new Session(deps, await SessionWriter.claim(deps, row), onGivenUp);
    try {
      await session.#exclusive(async () => {
        // First: it has to see a lost past before any commit stores a new snapshot.
        await session.#runner.recover();
        await abandonMove(session.#context);
        await session.#commands.recover();
        session.#time.set();
        await session.#budget.settle();
      });
    } catch (error) {
      await session.close();
      throw error;
    }
    session.#runner.advance();
    return session;
  }

  /** Claims the session to terminate or remove it. It starts and reads nothing, so damage cannot stop it. */
  static async openToEnd(deps: SessionDeps, row: SessionRow, onGivenUp: OnGivenUp): Promise<Session> {
    return new Session(deps, await SessionWriter.claim(deps, row), onGivenUp);
  }

  /** Whether a crash now would leave work for the next server. */
  get isActive(): boolean {
    return this.#runner.isBooting || isActive(this.#writer.fold);
  }

  /** Whether the session has done nothing since this head of its log, and does nothing now. */
  restsAt(head: number): boolean {
    const { fold } = this.#writer;
    return isResting(fold) && fold.head === head && !this.#runner.isBooting && !this.isBusy;
  }

  get isBusy(): boolean {
    return this.#lock.isHeld;
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  get hasTurn(): boolean {
    return this.#writer.fold.turn !== null;
  }

  /** Whether a turn runs and does not wait for an answer. A drain waits only for such turns: an answer may never come. */
  get isWorking(): boolean {
    return this.#writer.fold.turn?.waitingFor.length === 0;
  }

  get isPaused(): boolean {
    return this.#writer.fold.paused;
  }

  get hasProcess(): boolean {
    return this.#runner.process !== undefined;
  }

  info(): SessionInfo {
    return this.#withStarting(this.#writer.info);
  }

  entry(): SessionEntry {
    return this.#withStarting(this.#writer.entry);
  }

  /** The info with the status "starting", where an agent is being started for a queued message. */
  #withStarting<Info extends SessionInfo>(info: Info): Info {
    const isStarting = this.#runner.isBooting && info.status === "idle" && info.queued > 0;
    return isStarting ? { ...info, status: "starting" } : info;
  }

  /** Accepts all submissions in one transaction, or none. */
  submit(submissions: readonly Submission[], options: SubmitOptions): Promise<Submitted> {
    return this.#exclusive(() => accept(this.#context, this.#runner, submissions, options));
  }

  interrupt(options?: InterruptOptions): Promise<{ turnId?: string }> {
    const parts = { context: this.#context, runner: this.#runner, turnEnds: this.#turnEnds };
    return interrupt({ ...parts, sleep: () => this.sleep() }, options);
  }

  reply(id: string, reply: Reply, options?: KeyOptions): Promise<void> {
    return this.#exclusive(() => replyOnce(this.#context, { id, reply }, options));
  }

  /** Resolves when the end of the command is in the log. */
  async interruptCommand(): Promise<string | undefined> {
    return this.#commands.stop("interrupted");
  }

  /** With `destroy` the sandbox is removed too. For an ended session that adds no event. */
  async terminate({ destroy = false }: { destroy?: boolean } = {}): Promise<void> {
    const { fold } = this.#writer;
    if (fold.ended) {
      if (destroy) await this.#sandbox.remove();
      return;
    }
    if (fold.paused) await this.#runner.resume();
    await this.#commands.stop("terminated");
    await this.#runner.shutDown("terminate");
    await this.#exclusive(async () => {
      if (fold.ended) return;
      const drafts = this.#writer.drafts(opening(this.#writer));
      loseCommand(this.#context, drafts);
      loseProcess(this.#context, drafts);
      if (destroy) await this.#sandbox.destroy(drafts);
      const data = { reason: "terminated", terminated_by: "daemon" } as const;
      endSession(fold, drafts, { type: "session.ended", source: "daemon", data });
      await this.#commit(drafts);
    });
  }

  /** Ends every process and appends `session.deleted`, unless the disk is full. The caller removes files and rows. */
  async remove(): Promise<void> {
    await this.#commands.detach();
    await this.#runner.demolish();
    await this.#exclusive(async () => {
      const drafts = this.#writer.drafts();
      endCommand(this.#context, drafts);
      endTurns(this.#writer.fold, drafts);
      drafts.add({ type: "session.deleted", source: "daemon", data: {} });
      await this.#commit(drafts);
    }).finally(() => this.#letGo());
  }

  /** Changed settings, and `forget`, end an idle agent's process. The next message starts it again. */
  async update(change: SessionChange, key?: string): Promise<void> {
    if (change.forget) await this.sleep();
    const restarts = await this.#exclusive(() => changeSession(this.#context, this.#runner, change, key));
    if (restarts) await this.sleep();
  }

  report(data: EventData<"error">): Promise<void> {
    return this.#exclusive(async () => {
      refuseEnded(this.id, this.#writer.fold, this.#runner);
      const error: EventDraft = { type: "error", source: "daemon", data };
      await this.#commit(this.#writer.drafts([...opening(this.#writer), error]));
    });
  }

  /** Ends an idle agent's process. The next message starts it again with its memory. */
  async sleep(): Promise<void> {
    // The end of the process would end the command in the sandbox too.
    const { command } = this.#writer.fold;
    if (this.#runner.process && !this.hasTurn && !command) await this.#runner.shutDown("idle");
  }

  /** Closes the session. Its process runs on, and the next opening finds it again. */
  async close(): Promise<void> {
    this.#letGo();
    await this.#commands.detach();
    await this.#runner.settled();
    await this.#lock.run(async () => {});
  }

  #exclusive<T>(task: () => Promise<T>): Promise<T> {
    return this.#lock.run(async () => {
      if (this.#closed) throw this.#closed;
      return task();
    });
  }

  /** Appends, then acts: wakes callers, sets alarms, delivers to the harness. */
  async #commit(drafts: Drafts, extra: CommitExtra = {}): Promise<void> {
    try {
      await this.#writer.commit(drafts, extra);
    } catch (error) {
      this.#giveUp(error);
      throw error;
    }
    if (!drafts.movesTurn) return;
    this.#turnEnds.settle(this.#writer.fold.turn?.id);
    this.#time.set();
    await this.#budget.settle(drafts.events);
    // The events are in the log, so the caller must not send them again. The reopened session tries the delivery again.
    await this.#runner.deliverOutbox().catch((error: unknown) => this.#giveUp(error));
    this.tools.settle(drafts.events);
  }

  #giveUp(error: unknown): void {
    if (this.isClosed) return;
    const isFull = error instanceof SluiceError && error.code === "storage_full";
    this.#letGo(isFull ? error : reopening());
    this.#onGivenUp(this, error);
  }

  #letGo(reason: SluiceError = reopening()): void {
    this.#closed ??= reason;
    this.#time.set();
    this.#quietly(this.#runner.detach());
    this.#quietly(this.#commands.detach());
    this.tools.close();
    this.#turnEnds.settle(undefined);
  }

  /** Runs a task whose failure is only logged. */
  #quietly(task: Promise<unknown>): void {
    const line = { level: "warn", message: "letting go of a session failed", session: this.id } as const;
    task.catch((error: unknown) => this.#deps.logger({ ...line, error: messageOf(error) }));
  }

  #inBackground(task: Promise<unknown>): void {
    task.catch((error: unknown) => this.#giveUp(error));
  }
}
