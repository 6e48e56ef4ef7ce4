import type { HarnessCommand } from "../harness/port.ts";
import type { Sandbox } from "../sandbox/port.ts";
import type { SessionContext } from "./context.ts";
import { endSession, sessionFailure, type Stop } from "./ending.ts";
import { Intake } from "./intake.ts";
import { discardProcess, failLaunch, launchProcess } from "./launch.ts";
import { Outbox } from "./outbox.ts";
import { ProcessLife } from "./life.ts";
import { isLate } from "./patience.ts";
import type { HarnessProcess } from "./process.ts";
import { mustBeDamage, recoverProcess, tellDamage } from "./recovery.ts";
import type { SessionSandbox } from "./sessionSandbox.ts";
import { startTurn } from "./start.ts";
import type { Leave } from "./startQueue.ts";

/** An agent that has said nothing for so long after its start costs no more than any other that runs. */
const SETTLED_MS = 2_000;

/** The harness process of a session, through all its lives: booted when there is work, ended, found again. */
export class Runner {
  readonly #context: SessionContext;
  readonly #sandbox: SessionSandbox;
  readonly #outbox: Outbox;
  readonly #life = new ProcessLife<HarnessProcess>();
  #intake: Intake | undefined;
  #booted: Promise<void> = Promise.resolve();
  #withdrawal = new AbortController();
  #leaveQueue: Leave = () => {};
  #ending: Promise<void> | undefined;
  #killing: Promise<void> | undefined;

  constructor(context: SessionContext, sandbox: SessionSandbox) {
    this.#context = context;
    this.#sandbox = sandbox;
    this.#outbox = new Outbox(context, {
      interrupt: () => this.signal("SIGINT"),
      discard: () => this.#discard(),
    });
  }

  get process(): HarnessProcess | undefined {
    return this.#life.process;
  }

  get isBooting(): boolean {
    return this.isQueued || this.#life.state === "starting";
  }

  /** Whether its start waits for those of other sessions. */
  get isQueued(): boolean {
    return this.#life.state === "queued";
  }

  /** Whether the session is being ended for good. */
  get isEnding(): boolean {
    return this.#life.isEnding;
  }

  /** Whether all that runs in the sandbox is being ended. */
  get isClearing(): boolean {
    return this.#ending !== undefined || this.#killing !== undefined;
  }

  /** Answers when what was to be ended has ended. */
  async cleared(): Promise<void> {
    await Promise.allSettled([this.#ending, this.#killing]);
  }

  get canStartTurn(): boolean {
    const { deps, writer } = this.#context;
    const { fold } = writer;
    const isFree = !fold.turn && !fold.ended && !fold.paused && this.#mustEnd === null;
    return this.#life.state === "running" && isFree && !this.#isStale && !deps.draining();
  }

  /** What an agent is to be told as its system's words, it is started with. */
  get #isStale(): boolean {
    return this.#context.writer.fold.inbox[0]?.instructions !== undefined;
  }

  /** Why the session cannot go on, unless it lasts whatever its agent does. */
  get #mustEnd(): string | null {
    const { fold, spec } = this.#context.writer;
    return spec.lasting === true ? null : fold.mustEnd;
  }

  /** Picks up the process that an earlier life left open; call it under the lock. */
  async recover(): Promise<void> {
    const process = await recoverProcess(this.#context, this.#sandbox);
    if (!process) return;
    this.#life.found(process);
    try {
      await this.#listen(process);
    } catch (error) {
      mustBeDamage(this.#context, error);
      await tellDamage(this.#context, "the agent's process cannot be used any more", error);
      this.#discard();
    }
    await this.deliverOutbox();
  }

  /** Starts what can be started: the next queued input, in a process that is booted for it if there is none. */
  advance(): void {
    const { deps, writer, isClosed, inBackground } = this.#context;
    const { fold } = writer;
    const { state } = this.#life;
    if (isClosed() || this.isBooting || this.#life.isStopping || fold.ended) return;
    if (this.#mustEnd !== null) return inBackground(this.shutDown("failure"));
    if (fold.turn || fold.paused || fold.inbox.length === 0 || deps.draining()) return;
    if (state === "none") return this.#start();
    if (this.#isStale) return fold.command ? undefined : inBackground(this.shutDown("idle"));
    inBackground(this.#startQueued());
  }

  /** Takes a start that waits out of the queue. */
  withdraw(): void {
    this.#withdrawal.abort();
  }

  /** Tells the harness all that the log says it must have been told. */
  async deliverOutbox(): Promise<void> {
    if (this.process) await this.#outbox.deliver(this.process);
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    const { process } = this;
    const pid = await process?.spool.pid();
    if (pid !== undefined) await process?.sandbox.signal(pid, signal);
  }

  /** Ends the process and all that it started; what that means is decided when its end is seen. */
  async kill(): Promise<void> {
    if (!this.process) return;
    this.#life.stop("interrupt");
    await this.#kill();
  }

  /** Whether the agent could be told this in the turn that runs. */
  canSteer(command: HarnessCommand): boolean {
    const { turn } = this.#context.writer.fold;
    const isFree = turn !== null && turn.interrupt === null && !this.#life.isStopping;
    return isFree && this.process?.canSay(command) === true;
  }

  /** Whether the process has said more than we have read: then it may have stopped already. */
  async isBehind(): Promise<boolean> {
    return this.#intake !== undefined && (await this.#intake.unread()) > 0;
  }

  /** Lets the sandbox go on where it was stopped, and its agent with what was sent meanwhile. */
  async resume(): Promise<void> {
    await this.#sandbox.resume();
    this.advance();
  }

  /** Ends the process for good and answers when its last output is in the log. One that comes meanwhile joins in. */
  shutDown(stop: Exclude<Stop, "remove">): Promise<void> {
    this.#life.stop(stop);
    this.withdraw();
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    const { deps, writer, giveUp, isClosed } = this.#context;
    const { fold } = writer;
    try {
      await this.#booted.catch(() => {});
      await this.#sandbox.settled();
      // A frozen process can neither end by itself nor be killed everywhere.
      if (fold.paused) await this.resume();
      if (this.#life.reason === "idle" && this.process) {
        await this.process.spool.closeInput();
        await isLate(this.#intake?.done, deps.limits.gentleMs);
      }
      await this.#kill();
      if (!this.isEnding) await this.#endFailed();
    } catch (error) {
      // Nobody knows what still runs: it is found out as after a crash.
      giveUp(error);
      throw error;
    }
    // From here on nothing is awaited: what comes after this is another stop.
    this.#ending = undefined;
    if (isClosed()) return;
    this.#life.stopped();
    this.advance();
  }

  async #endFailed(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    await exclusive(async () => {
      const { fold } = writer;
      if (this.#mustEnd === null || fold.ended) return;
      const drafts = writer.drafts();
      endSession(fold, drafts, sessionFailure(this.#mustEnd));
      await commit(drafts);
    });
  }

  /** Ends and removes all that is on the disk; nothing of it needs to be in a log that goes too. */
  async demolish(): Promise<void> {
    this.#life.stop("remove");
    this.withdraw();
    await this.#booted.catch(() => {});
    await this.#sandbox.settled();
    await this.#ending?.catch(() => {});
    await this.detach();
    await this.#intake?.done;
    if (this.process) {
      await this.process.kill();
      await this.process.spool.remove();
      this.#life.exited();
    }
    await this.#sandbox.remove();
  }

  /** Stops looking, and ends nothing. */
  async detach(): Promise<void> {
    this.withdraw();
    this.#leaveQueue();
    await this.#intake?.detach();
    await this.#sandbox.release();
  }

  async settled(): Promise<void> {
    await this.#booted.catch(() => {});
    await this.#intake?.done;
  }

  /** Once at a time: a second one would end what is started after the first. */
  #kill(): Promise<void> {
    this.#killing ??= this.#killProcess().finally(() => {
      this.#killing = undefined;
    });
    return this.#killing;
  }

  async #killProcess(): Promise<void> {
    const { deps } = this.#context;
    const { process } = this;
    const intake = this.#intake;
    if (!process || !intake) {
      await (await this.#sandbox.reachable())?.killAll();
      return;
    }
    await process.kill();
    if ((await intake.unread()) > deps.limits.maxUnreadBytes) await intake.abandon();
    await intake.done;
  }

  async #startQueued(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    await exclusive(async () => {
      if (!this.canStartTurn || writer.fold.inbox.length === 0) return;
      const drafts = writer.drafts();
      startTurn(writer.fold, drafts);
      await commit(drafts);
    });
  }

  #start(): void {
    this.#life.start();
    this.#withdrawal = new AbortController();
    this.#booted = this.#boot().finally(() => this.advance());
    this.#context.inBackground(this.#booted);
  }

  async #boot(): Promise<void> {
    const { deps, writer, exclusive, isClosed } = this.#context;
    const { fold } = writer;
    const leave = await deps.starts.enter(this.#withdrawal.signal);
    if (!leave) return this.#life.unstarted();
    this.#leaveQueue = leave;
    try {
      if (this.isQueued) this.#life.admitted();
      const sandbox = await this.#sandbox.made();
      await this.#killing?.catch(() => {});
      await exclusive(async () => {
        // In a frozen sandbox nothing starts; once it goes on, this is tried again.
        const isWanted = fold.inbox.length > 0 && !fold.ended && !fold.paused;
        if (!isWanted || this.#life.isStopping) return this.#life.unstarted();
        await this.#launch(sandbox);
      });
    } catch (error) {
      if (isClosed()) throw error;
      await exclusive(async () => {
        this.#life.unstarted();
        await failLaunch(this.#context, error);
      });
    } finally {
      if (this.#life.state === "running") setTimeout(leave, SETTLED_MS).unref();
      else leave();
    }
  }

  async #launch(sandbox: Sandbox): Promise<void> {
    const { writer, commit } = this.#context;
    const { process, told } = await launchProcess(this.#context, sandbox);
    this.#life.started(process);
    try {
      await this.#listen(process);
    } catch (error) {
      await this.#intake?.detach();
      await discardProcess(process, { alone: !writer.fold.command });
      throw error;
    }
    const drafts = writer.drafts();
    if (this.canStartTurn) startTurn(writer.fold, drafts);
    drafts.addAll(told);
    await commit(drafts);
  }

  /** What it says is read from here on. */
  async #listen(process: HarnessProcess): Promise<void> {
    this.#intake = new Intake(this.#context, process, {
      stop: () => this.#life.reason,
      moved: async (endsTurn) => {
        this.#leaveQueue();
        if (endsTurn && process.isOneShot && this.process === process) this.#life.served();
        if (this.#outbox.isOwed) await this.deliverOutbox();
        this.advance();
      },
      ended: () => this.#forget(process),
      tooMuch: () => this.#context.inBackground(this.#refuseOutput()),
    });
    await this.#intake.start();
    await process.greet();
  }

  /** An agent that cannot be told anything is of no use: the next message starts another. */
  #discard(): void {
    if (!this.#life.isStopping && !this.#context.writer.fold.command) this.#context.inBackground(this.kill());
  }

  async #forget(process: HarnessProcess): Promise<void> {
    this.#life.exited();
    // Children that the agent left behind end with it, unless somebody else's command runs beside them.
    if (!this.#context.writer.fold.command) await process.sandbox.killAll();
    await process.spool.remove();
  }

  async #refuseOutput(): Promise<void> {
    const { deps, writer, exclusive, commit } = this.#context;
    if (this.#life.isStopping) return;
    this.#life.stop("failure");
    const message = `the agent wrote more than ${deps.limits.maxOutputBytes} bytes in one process and was stopped`;
    await exclusive(() =>
      commit(writer.drafts([{ type: "error", source: "daemon", data: { code: "too_large", message } }])),
    );
    await this.shutDown("failure");
  }
}
