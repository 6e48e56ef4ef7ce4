import { SluiceError, type EventDraft } from "../contract/index.ts";
import type { HarnessCommand } from "../harness/port.ts";
import { startProcess } from "./boot.ts";
import type { SessionContext } from "./context.ts";
import { endSession, endUnstarted, sessionFailure, type Stop } from "./ending.ts";
import { instructionChange } from "./instructions.ts";
import { Intake } from "./intake.ts";
import { Outbox } from "./outbox.ts";
import { isLate } from "./patience.ts";
import type { HarnessProcess } from "./process.ts";
import { mustBeDamage, recoverProcess, tellDamage } from "./recovery.ts";
import type { SessionSandbox } from "./sessionSandbox.ts";
import { startTurn } from "./start.ts";

/** The harness process of a session, through all its lives: booted when there is work, ended, found again. */
export class Runner {
  readonly #context: SessionContext;
  readonly #sandbox: SessionSandbox;
  readonly #outbox: Outbox;
  #process: HarnessProcess | undefined;
  #intake: Intake | undefined;
  #booting: Promise<void> | undefined;
  #stop: Stop | undefined;
  /** It serves one turn and has served it: the next one needs another. */
  #isSpent = false;

  constructor(context: SessionContext, sandbox: SessionSandbox) {
    this.#context = context;
    this.#sandbox = sandbox;
    this.#outbox = new Outbox(context, {
      interrupt: () => this.signal("SIGINT"),
      discard: () => this.#discard(),
    });
  }

  get process(): HarnessProcess | undefined {
    return this.#process;
  }

  get isBooting(): boolean {
    return this.#booting !== undefined;
  }

  /** Whether the session is being ended for good. */
  get isEnding(): boolean {
    return this.#stop === "terminate" || this.#stop === "remove";
  }

  get canStartTurn(): boolean {
    const { deps, writer } = this.#context;
    const { fold } = writer;
    const isFree = !fold.turn && !fold.ended && !fold.paused && this.#mustEnd === null;
    const isReady = this.#process !== undefined && this.#stop === undefined && !this.#isSpent;
    return isReady && isFree && !this.#isStale && !deps.draining();
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
    try {
      await this.#take(process);
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
    if (isClosed() || this.#booting || this.#stop !== undefined || fold.ended) return;
    if (this.#mustEnd !== null) return inBackground(this.shutDown("failure"));
    if (fold.turn || fold.paused || fold.inbox.length === 0 || deps.draining()) return;
    if (this.#process && this.#isStale) return fold.command ? undefined : inBackground(this.shutDown("idle"));
    if (this.#process) return inBackground(this.#startQueued());
    this.#booting = this.#boot().finally(() => {
      this.#booting = undefined;
      this.advance();
    });
    inBackground(this.#booting);
  }

  /** Tells the harness all that the log says it must have been told. */
  async deliverOutbox(): Promise<void> {
    if (this.#process) await this.#outbox.deliver(this.#process);
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    const pid = await this.#process?.spool.pid();
    if (pid !== undefined) await this.#process?.sandbox.signal(pid, signal);
  }

  /** Ends every process of the sandbox; no turn starts in it any more, and what its end means is decided when it is seen. */
  async kill(): Promise<void> {
    this.#stop ??= "interrupt";
    await this.#killProcess();
  }

  /** Whether the agent could be told this in the turn that runs. */
  canSteer(command: HarnessCommand): boolean {
    const { turn } = this.#context.writer.fold;
    const isFree = turn !== null && turn.interrupt === null && this.#stop === undefined;
    return isFree && this.#process?.canSay(command) === true;
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

  /** Ends the process for good and answers when its last output is in the log. */
  async shutDown(stop: Exclude<Stop, "remove">): Promise<void> {
    const { deps, writer, exclusive, commit } = this.#context;
    this.#stop = stop;
    await this.#booting?.catch(() => {});
    // A frozen process can neither end by itself nor be killed everywhere.
    if (writer.fold.paused) await this.resume();
    if (stop === "idle" && this.#process) {
      await this.#process.spool.closeInput();
      await isLate(this.#intake?.done, deps.limits.gentleMs);
    }
    await this.#killProcess();
    if (this.isEnding) return;
    this.#stop = undefined;
    await exclusive(async () => {
      const { fold } = writer;
      if (this.#mustEnd === null || fold.ended) return;
      const drafts = writer.drafts();
      endSession(fold, drafts, sessionFailure(this.#mustEnd));
      await commit(drafts);
    });
    this.advance();
  }

  /** Ends and removes all that is on the disk; nothing of it needs to be in a log that goes too. */
  async demolish(): Promise<void> {
    this.#stop = "remove";
    await this.#booting?.catch(() => {});
    await this.detach();
    await this.#intake?.done;
    await this.#process?.kill();
    await this.#process?.spool.remove();
    this.#process = undefined;
    await this.#sandbox.remove();
  }

  /** Stops looking, and ends nothing. */
  async detach(): Promise<void> {
    await this.#intake?.detach();
    await this.#sandbox.release();
  }

  async settled(): Promise<void> {
    await this.#booting?.catch(() => {});
    await this.#intake?.done;
  }

  async #killProcess(): Promise<void> {
    const { deps } = this.#context;
    const process = this.#process;
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

  async #boot(): Promise<void> {
    const { deps, writer, exclusive, commit, isClosed } = this.#context;
    const { row, fold } = writer;
    // The lock is free while a sandbox boots, which may take long: messages are accepted meanwhile.
    const record = (event: EventDraft): Promise<void> => exclusive(() => commit(writer.drafts([event])));
    try {
      const sandbox = await this.#sandbox.make(record);
      await exclusive(async () => {
        if (fold.ended || this.#stop !== undefined) return;
        const ordinal = fold.processes + 1;
        const resumed = fold.nativeSessionId ?? undefined;
        const started = {
          process: ordinal,
          harness: row.spec.agent,
          ...(resumed === undefined ? {} : { resumed }),
        };
        await commit(
          writer.drafts([
            ...instructionChange(writer),
            { type: "process.started", source: "daemon", data: started },
          ]),
        );
        const told: EventDraft[] = [];
        const tell = (events: readonly EventDraft[]): void => void told.push(...events);
        await this.#take(
          await startProcess(deps, { ...row, spec: writer.spec }, sandbox, { ordinal, resumed, tell }),
        );
        const drafts = writer.drafts();
        if (this.canStartTurn) startTurn(fold, drafts);
        drafts.addAll(told);
        await commit(drafts);
      });
    } catch (error) {
      if (isClosed()) throw error;
      await exclusive(() => this.#failToStart(error));
    }
  }

  async #failToStart(error: unknown): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const { fold, row } = writer;
    const message = error instanceof Error ? error.message : String(error);
    const code = error instanceof SluiceError ? error.code : "internal";
    // The turn's own events tell it too.
    deps.logger({
      level: "warn",
      message: "the agent could not be started",
      session: row.id,
      error: message,
    });
    const drafts = writer.drafts();
    endUnstarted(fold, drafts, { code, message });
    await commit(drafts);
  }

  /** The process is ours from here on, and what it says is read. */
  async #take(process: HarnessProcess): Promise<void> {
    this.#process = process;
    this.#isSpent = false;
    this.#intake = new Intake(this.#context, process, {
      stop: () => this.#stop,
      moved: async (endsTurn) => {
        if (endsTurn && process.isOneShot) this.#isSpent = true;
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
    if (this.#stop === undefined && !this.#context.writer.fold.command)
      this.#context.inBackground(this.kill());
  }

  async #forget(process: HarnessProcess): Promise<void> {
    this.#process = undefined;
    if (this.#stop === "interrupt") this.#stop = undefined;
    // Children that the agent left behind end with it, unless somebody else's command runs beside them.
    if (!this.#context.writer.fold.command) await process.sandbox.killAll();
    await process.spool.remove();
  }

  async #refuseOutput(): Promise<void> {
    const { deps, writer, exclusive, commit } = this.#context;
    if (this.#stop !== undefined) return;
    this.#stop = "failure";
    const message = `the agent wrote more than ${deps.limits.maxOutputBytes} bytes in one process and was stopped`;
    await exclusive(() =>
      commit(writer.drafts([{ type: "error", source: "daemon", data: { code: "too_large", message } }])),
    );
    await this.shutDown("failure");
  }
}
