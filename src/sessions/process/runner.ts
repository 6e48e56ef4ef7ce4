import type { HarnessCommand } from "../../harness/port.ts";
import type { SessionContext } from "../context.ts";
import { isHeld } from "../fold/session-fold.ts";
import { resumeSandbox } from "../sandbox/pause.ts";
import type { SessionSandbox } from "../sandbox/session-sandbox.ts";
import { startTurn } from "../turn/turn-start.ts";
import { mustEnd, type Stop } from "./ending.ts";
import { Intake } from "./intake.ts";
import { ProcessLife } from "./life.ts";
import { Outbox } from "./outbox.ts";
import type { HarnessProcess } from "./process.ts";
import { commitLoss, damageEvent, mustBeDamage, recoverProcess } from "./recovery.ts";
import { ProcessStart } from "./start.ts";
import { ProcessStop } from "./stop.ts";

/** The harness process of a session, through all its lives: started for a message, ended, found again. */
export class Runner {
  readonly #context: SessionContext;
  readonly #sandbox: SessionSandbox;
  readonly #outbox: Outbox;
  readonly #life = new ProcessLife<HarnessProcess>();
  readonly #start: ProcessStart;
  readonly #stop: ProcessStop;
  /** The intake of the newest process. */
  #intake: Intake | undefined;

  constructor(context: SessionContext, sandbox: SessionSandbox) {
    this.#context = context;
    this.#sandbox = sandbox;
    const parts = { context, sandbox, life: this.#life, advance: () => this.advance() };
    this.#start = new ProcessStart({
      ...parts,
      listen: (process) => this.#listen(process),
      detach: async () => this.#intake?.detach(),
      canStartTurn: () => this.canStartTurn,
    });
    this.#stop = new ProcessStop({ ...parts, start: this.#start, intake: () => this.#intake });
    this.#outbox = new Outbox(context, {
      interrupt: () => this.signal("SIGINT"),
      discard: () => this.#discard(),
    });
  }

  get process(): HarnessProcess | undefined {
    return this.#life.process;
  }

  /** Whether a start waits in the queue or is under way. */
  get isBooting(): boolean {
    return this.#life.state === "queued" || this.#life.state === "starting";
  }

  /** Whether the session is being ended for good. */
  get isEnding(): boolean {
    return this.#life.isEnding;
  }

  /** Whether everything in the sandbox is being ended. */
  get isClearing(): boolean {
    return this.#life.state === "stopping";
  }

  /** Resolves when no stop is under way. */
  cleared(): Promise<void> {
    return this.#stop.settled();
  }

  get canStartTurn(): boolean {
    const { deps, writer } = this.#context;
    const { fold } = writer;
    const isFree = !fold.turn && !fold.ended && !isHeld(fold) && mustEnd(writer) === null;
    return this.#life.state === "running" && isFree && !this.#isStale && !deps.draining();
  }

  /** Whether the next message has instructions of its own, which an agent takes at its start only. */
  get #isStale(): boolean {
    return this.#context.writer.fold.inbox[0]?.instructions !== undefined;
  }

  /** Picks up the process that an earlier server left open. Call it under the lock. */
  async recover(): Promise<void> {
    const process = await recoverProcess(this.#context, this.#sandbox);
    if (!process) return;
    this.#life.found(process);
    try {
      await this.#listen(process);
    } catch (error) {
      mustBeDamage(this.#context, error);
      return this.#lose(process, error);
    }
    await this.deliverOutbox();
  }

  /** Starts the turn of the next queued input, and a process for it where there is none. */
  advance(): void {
    const { deps, writer, isClosed, inBackground } = this.#context;
    const { fold } = writer;
    if (isClosed() || this.isBooting || this.#life.isStopping || fold.ended) return;
    if (mustEnd(writer) !== null) return inBackground(this.shutDown("failure"));
    if (fold.turn || isHeld(fold) || fold.inbox.length === 0 || deps.draining()) return;
    if (this.#life.state === "none") return this.#start.begin();
    if (this.#isStale) return fold.command ? undefined : inBackground(this.shutDown("idle"));
    inBackground(this.#startQueued());
  }

  /** Takes a waiting start out of the queue. */
  withdraw(): void {
    this.#start.withdraw();
  }

  /** Sends the harness the commands of the log that it has not got yet. */
  async deliverOutbox(): Promise<void> {
    if (this.process) await this.#outbox.deliver(this.process);
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    const { process } = this;
    await process?.sandbox.processes.signal(process.name, signal);
  }

  /** Kills the process of an interrupted turn, with everything that it started. */
  kill(): Promise<void> {
    return this.#stop.kill();
  }

  /** Whether the running turn can take this command. */
  canSteer(command: HarnessCommand): boolean {
    const { turn } = this.#context.writer.fold;
    const isFree = turn !== null && turn.interrupt === null && !this.#life.isStopping;
    return isFree && this.process?.canSay(command) === true;
  }

  /** Whether the process has unread output, which may end the turn. */
  async isBehind(): Promise<boolean> {
    return this.#intake !== undefined && (await this.#intake.unread()) > 0;
  }

  /** Resumes a paused sandbox, and starts the next queued input. */
  async resume(): Promise<void> {
    await resumeSandbox(this.#context, this.#sandbox);
    this.advance();
  }

  /** Ends the process, and resolves when its last output is in the log. */
  shutDown(reason: Exclude<Stop, "remove">): Promise<void> {
    return this.#stop.shutDown(reason);
  }

  /** Ends every process of the session, which is being removed. Nothing is appended: the log goes too. */
  demolish(): Promise<void> {
    return this.#stop.demolish();
  }

  /** Stops reading. The process runs on. */
  async detach(): Promise<void> {
    this.#start.withdraw();
    this.#start.leaveQueue();
    await this.#intake?.detach();
    await this.#sandbox.release();
  }

  async settled(): Promise<void> {
    await this.#start.settled();
    await this.#intake?.done;
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

  async #listen(process: HarnessProcess): Promise<void> {
    this.#context.writer.redact = process.redactor.text;
    this.#intake = new Intake(this.#context, process, {
      stop: () => this.#life.reason,
      moved: async (endsTurn) => {
        this.#start.leaveQueue();
        if (endsTurn && process.isOneShot && this.process === process) this.#life.served();
        if (this.#outbox.isOwed) await this.deliverOutbox();
        this.advance();
      },
      ended: () => this.#forget(process),
      tooMuch: () => this.#context.inBackground(this.#stop.refuseOutput()),
    });
    await this.#intake.start();
    await process.greet();
  }

  /** Ends a process that was found, but cannot be used. Call it under the lock. */
  async #lose(process: HarnessProcess, error: unknown): Promise<void> {
    await this.#intake?.detach();
    if (this.#context.writer.fold.command) await this.signal("SIGKILL");
    else await process.kill();
    this.#life.exited();
    const damage = damageEvent(this.#context, "the agent's process cannot be used any more", error);
    await commitLoss(this.#context, [damage]);
    await process.spool.remove();
  }

  /** An agent that takes no input is killed; the next message starts another. */
  #discard(): void {
    if (!this.#life.isStopping && !this.#context.writer.fold.command) this.#context.inBackground(this.kill());
  }

  async #forget(process: HarnessProcess): Promise<void> {
    this.#life.exited();
    // The agent's children end with it. While a client's command runs they stay: `killAll` would end the command too.
    if (!this.#context.writer.fold.command) await process.sandbox.killAll();
    await process.spool.remove();
  }
}
