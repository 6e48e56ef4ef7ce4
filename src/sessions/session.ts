import {
  SluiceError,
  type EventDraft,
  type RunCommand,
  type SessionInfo,
  type SessionSpec,
  type EventData,
} from "../contract/index.ts";
import type { SessionRow } from "../log/port.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import type { Sandbox, SandboxFiles } from "../sandbox/port.ts";
import { accept } from "./accepting.ts";
import { changeOf, type SessionChange } from "./change.ts";
import { closeTurn } from "./closing.ts";
import { Commands, loseCommand } from "./commands.ts";
import type { SessionContext } from "./context.ts";
import { messageOf } from "./damage.ts";
import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./drafts.ts";
import { endSession, endWithdrawn, TERMINATED } from "./ending.ts";
import { isActive, isResting, type QueuedInput } from "./fold.ts";
import { Keeper } from "./keeper.ts";
import { Lock } from "./lock.ts";
import { opening } from "./opening.ts";
import { isLate } from "./patience.ts";
import type { InterruptOptions, StartedCommand, SubmitOptions, Submitted } from "./port.ts";
import { loseProcess } from "./recovery.ts";
import { refuseEnded, refuseTurn } from "./refusals.ts";
import { replyEvents, type Reply } from "./replies.ts";
import { Runner } from "./runner.ts";
import { SessionSandbox } from "./sessionSandbox.ts";
import type { Submission } from "./submission.ts";
import { Timekeeper } from "./timekeeper.ts";
import { ToolCalls } from "./toolCalls.ts";
import { refuseUnreachableTools } from "./toolServer.ts";
import { TurnEnds } from "./turnEnds.ts";
import { SessionWriter, type CommitExtra } from "./writer.ts";

/**
 * One live session. Everything that changes it happens under its lock, is appended first and acted on
 * afterwards. When an append fails, the object is given up and the session is opened again from its log,
 * exactly as after a crash.
 */
export class Session {
  readonly id: string;
  /** The calls of its application's tools. */
  readonly tools: ToolCalls;
  readonly #deps: SessionDeps;
  readonly #context: SessionContext;
  readonly #writer: SessionWriter;
  readonly #sandbox: SessionSandbox;
  readonly #runner: Runner;
  readonly #commands: Commands;
  readonly #time: Timekeeper;
  readonly #keeper: Keeper;
  readonly #lock = new Lock();
  readonly #turnEnds = new TurnEnds();
  #closed = false;
  /** What it was given up for, where that is for whoever waits to know. */
  #reason: SluiceError | undefined;

  private constructor(deps: SessionDeps, writer: SessionWriter) {
    this.id = writer.row.id;
    this.#deps = deps;
    this.#writer = writer;
    this.#keeper = new Keeper(deps.checkpoints(writer.row.spec.shelf), writer);
    this.#context = {
      deps,
      keeper: this.#keeper,
      writer,
      isClosed: () => this.#closed,
      isBusy: () => this.isBusy,
      exclusive: (task) => this.#exclusive(task),
      commit: (drafts, extra) => this.#commit(drafts, extra),
      inBackground: (task) => this.#inBackground(task),
      giveUp: (error) => this.#giveUp(error),
    };
    this.#sandbox = new SessionSandbox(this.#context);
    this.#runner = new Runner(this.#context, this.#sandbox);
    this.tools = new ToolCalls(this.#context, this.#runner);
    this.#commands = new Commands(this.#context, this.#runner, this.#sandbox);
    this.#time = new Timekeeper(this.#context, this.#runner, () => this.sleep());
  }

  /** Takes the session over from whoever had it, and picks up what was left running. On failure nothing is held. */
  static async open(deps: SessionDeps, row: SessionRow): Promise<Session> {
    const session = new Session(deps, await SessionWriter.claim(deps, row));
    try {
      await session.#exclusive(async () => {
        await session.#runner.recover();
        await session.#commands.recover();
        session.#time.set();
      });
    } catch (error) {
      await session.close();
      throw error;
    }
    session.#runner.advance();
    return session;
  }

  /** Takes the session over to terminate or remove it. Nothing is picked up, delivered or started, so nothing can fail. */
  static async openToEnd(deps: SessionDeps, row: SessionRow): Promise<Session> {
    return new Session(deps, await SessionWriter.claim(deps, row));
  }

  /** Whether a crash now would leave something to pick up. */
  get isActive(): boolean {
    return this.#runner.isBooting || isActive(this.#writer.fold);
  }

  /** Whether nothing has happened to it behind this head of its log, nor is about to. */
  restsAt(head: number): boolean {
    const { fold } = this.#writer;
    return isResting(fold) && fold.head === head && !this.#runner.isBooting && !this.isBusy;
  }

  get isBusy(): boolean {
    return this.#lock.isHeld;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  get hasTurn(): boolean {
    return this.#writer.fold.turn !== null;
  }

  get isWaiting(): boolean {
    return (this.#writer.fold.turn?.waitingFor.length ?? 0) > 0;
  }

  get isPaused(): boolean {
    return this.#writer.fold.paused;
  }

  get hasProcess(): boolean {
    return this.#runner.process !== undefined;
  }

  get inbox(): readonly QueuedInput[] {
    return [...this.#writer.fold.inbox];
  }

  info(): SessionInfo {
    const { info } = this.#writer;
    const isStarting = this.#runner.isBooting && info.status === "idle" && info.queued > 0;
    return isStarting ? { ...info, status: "starting" } : info;
  }

  /** All of it is accepted in one transaction, or none of it. */
  submit(submissions: readonly Submission[], options: SubmitOptions): Promise<Submitted> {
    return this.#exclusive(() => accept(this.#context, this.#runner, submissions, options));
  }

  /** Answers when the turn has ended, and with `stop` when nothing of the agent runs any more. */
  async interrupt({ by, turnId, stop = false }: InterruptOptions = {}): Promise<{ turnId?: string }> {
    // Nobody hears an interrupt while frozen.
    await this.#runner.resume();
    const interrupted = await this.#exclusive(async () => {
      const { turn, inbox } = this.#writer.fold;
      const queued = !turn && this.#runner.isBooting ? inbox[0]?.turnId : undefined;
      if (queued !== undefined && queued === (turnId ?? queued)) return this.#withdraw(queued);
      if (!turn || (turnId !== undefined && turn.id !== turnId)) return undefined;
      const ended = this.#turnEnds.of(turn.id);
      await this.#time.interrupt(by);
      return { turnId: turn.id, ended };
    });
    if (!interrupted) return {};
    // An agent that somebody has turned away from gets a moment for its last words, and no more.
    if (stop && (await isLate(interrupted.ended, this.#deps.limits.stopMs))) await this.#runner.kill();
    await interrupted.ended;
    if (stop) await this.sleep();
    return { turnId: interrupted.turnId };
  }

  reply(id: string, reply: Reply): Promise<void> {
    return this.#exclusive(() => this.#append(replyEvents(this.#writer.fold, id, reply)));
  }

  async exec(command: RunCommand): Promise<StartedCommand> {
    const sandbox = await this.#sandboxFor(() => {
      this.#refuseEnded();
      this.#commands.refuse(command);
    });
    for (;;) {
      // With an agent that is put to sleep ends all that runs beside it.
      await this.#runner.cleared();
      const started = await this.#exclusive(async () => {
        this.#refuseEnded();
        return this.#runner.isClearing ? undefined : this.#commands.start(command, sandbox);
      });
      if (started) return started;
    }
  }

  /** Answers when the end of the command is in the log. */
  async interruptCommand(): Promise<string | undefined> {
    return this.#commands.stop("interrupted");
  }

  /** With `destroy` the sandbox goes too; one of a session that ended before goes without a word. */
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

  /** Ends all that runs and says `session.deleted`; removing the rows is the engine's part. */
  async remove(): Promise<void> {
    await this.#commands.detach();
    await this.#runner.demolish();
    // On a full disk this fails, and the session goes all the same.
    await this.#exclusive(async () => {
      const drafts = this.#writer.drafts(closeTurn(this.#writer.fold, TERMINATED));
      drafts.add({ type: "session.deleted", source: "daemon", data: {} });
      await this.#commit(drafts);
    }).finally(() => this.#letGo());
  }

  async files(): Promise<SandboxFiles> {
    return (await this.#sandboxFor()).files;
  }

  /** What really changed is an event; an agent that has to be started otherwise is, with the next message. */
  async update(change: SessionChange): Promise<void> {
    if (change.forget) await this.sleep();
    const restarts = await this.#exclusive(() => this.#change(change));
    if (restarts) await this.sleep();
  }

  /** Whether the agent has to be started otherwise. */
  async #change(change: SessionChange): Promise<boolean> {
    this.#refuseEnded();
    const data = changeOf(this.#writer, change);
    if (data.settings !== undefined) {
      this.#refuseTurn("be changed");
      refuseUnreachableTools({ ...this.#writer.spec, ...(data.settings as Partial<SessionSpec>) });
    }
    if (data.native_session_id === null) this.#refuseTurn("forget");
    if (Object.keys(data).length === 0) return false;
    await this.#append([...opening(this.#writer), { type: "session.updated", source: "daemon", data }]);
    return data.settings !== undefined;
  }

  report(data: EventData<"error">): Promise<void> {
    return this.#exclusive(async () => {
      this.#refuseEnded();
      await this.#append([...opening(this.#writer), { type: "error", source: "daemon", data }]);
    });
  }

  async checkpoint(comment: string | undefined): Promise<CheckpointInfo> {
    const refuse = (): void => this.#refuseTurn("be checkpointed");
    const sandbox = await this.#sandboxFor(refuse);
    return this.#exclusive(async () => {
      refuse();
      const { info, event } = await this.#keeper.keep(sandbox, comment);
      await this.#append([event]);
      return info;
    });
  }

  /** The agent's process ends first; the next message starts it again, with the memory that was restored. */
  async restore(checkpoint: string): Promise<CheckpointInfo> {
    this.#refuseEnded();
    this.#refuseTurn("be restored");
    await this.sleep();
    const sandbox = await this.#sandboxFor();
    return this.#exclusive(async () => {
      this.#refuseTurn("be restored");
      const { info, events } = await this.#keeper.restore(sandbox, checkpoint);
      await this.#append(events);
      return info;
    });
  }

  async pause(): Promise<void> {
    this.#refuseEnded();
    await this.#runner.cleared();
    return this.#sandbox.pause();
  }

  resume(): Promise<void> {
    return this.#runner.resume();
  }

  host(port: number): Promise<URL> {
    this.#refuseEnded();
    return this.#sandbox.host(port);
  }

  /** Ends an idle process; the next message starts it again where it was. */
  async sleep(): Promise<void> {
    // With it would end what else runs in the sandbox.
    const { command } = this.#writer.fold;
    if (this.#runner.process && !this.hasTurn && !command) await this.#runner.shutDown("idle");
  }

  /** Lets go without ending anything: the process, if there is one, is found again at the next start. */
  async close(): Promise<void> {
    this.#letGo();
    await this.#commands.detach();
    await this.#runner.settled();
    await this.#lock.run(async () => {});
  }

  #exclusive<T>(task: () => Promise<T>): Promise<T> {
    return this.#lock.run(async () => {
      if (this.#closed)
        throw this.#reason ?? new SluiceError("stream_error", "the session was being reopened; try again");
      return task();
    });
  }

  /** The sandbox that it has, or one that is made for it; an ended session gets none. Not to be called under the lock. */
  async #sandboxFor(refuse: () => void = () => {}): Promise<Sandbox> {
    const kept = await this.#exclusive(async () => {
      refuse();
      const kept = await this.#sandbox.connected();
      if (kept) return kept;
      this.#refuseEnded();
      await this.#begin();
      return undefined;
    });
    return kept ?? this.#sandbox.made();
  }

  /** Gives up the message whose start waits its turn; one behind it keeps the place. Under the lock. */
  async #withdraw(turnId: string): Promise<{ turnId: string; ended: Promise<void> }> {
    const { fold } = this.#writer;
    const drafts = this.#writer.drafts();
    endWithdrawn(fold, drafts);
    await this.#commit(drafts);
    if (fold.inbox.length === 0) this.#runner.withdraw();
    return { turnId, ended: Promise.resolve() };
  }

  async #begin(): Promise<void> {
    if (!this.#writer.fold.started) await this.#append(opening(this.#writer));
  }

  async #append(events: readonly EventDraft[]): Promise<void> {
    await this.#commit(this.#writer.drafts(events));
  }

  /** First the log, then the world: whoever waits, the alarms, the harness. */
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
    // The events are in the log, so the caller must not send them again. The reopened session tries the delivery again.
    await this.#runner.deliverOutbox().catch((error: unknown) => this.#giveUp(error));
    this.tools.settle(drafts.events);
  }

  #giveUp(error: unknown): void {
    if (this.#closed) return;
    if (error instanceof SluiceError && error.code === "storage_full") this.#reason = error;
    this.#letGo();
    this.#deps.onGivenUp(this, error);
  }

  #letGo(): void {
    this.#closed = true;
    this.#time.set();
    this.#quietly(this.#runner.detach());
    this.#quietly(this.#commands.detach());
    this.tools.close();
    this.#turnEnds.settle(undefined);
  }

  #refuseEnded(): void {
    refuseEnded(this.id, this.#writer.fold, this.#runner);
  }

  #refuseTurn(what: string): void {
    refuseTurn(what, this.#writer.fold, this.#runner);
  }

  /** A task whose failure changes nothing. */
  #quietly(task: Promise<unknown>): void {
    task.catch((error: unknown) =>
      this.#deps.logger({
        level: "warn",
        message: "letting go of a session failed",
        session: this.id,
        error: messageOf(error),
      }),
    );
  }

  #inBackground(task: Promise<unknown>): void {
    task.catch((error: unknown) => this.#giveUp(error));
  }
}
