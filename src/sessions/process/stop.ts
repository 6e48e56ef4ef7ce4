import type { SessionContext } from "../context.ts";
import { isLate } from "../lock.ts";
import { resumeSandbox } from "../sandbox/pause.ts";
import type { SessionSandbox } from "../sandbox/session-sandbox.ts";
import { endSession, mustEnd, sessionFailure, type Stop } from "./ending.ts";
import type { Intake } from "./intake.ts";
import type { ProcessLife } from "./life.ts";
import type { HarnessProcess } from "./process.ts";
import type { ProcessStart } from "./start.ts";

export interface StopParts {
  readonly context: SessionContext;
  readonly sandbox: SessionSandbox;
  readonly life: ProcessLife<HarnessProcess>;
  readonly start: ProcessStart;
  /** The intake of the newest process. */
  intake(): Intake | undefined;
  /** Called when nothing is being stopped any more. */
  advance(): void;
}

/** Ends a session's agent and everything that it started. At most one end and one kill run; further callers wait for them. */
export class ProcessStop {
  readonly #parts: StopParts;
  #ending: Promise<void> | undefined;
  #killing: Promise<void> | undefined;

  constructor(parts: StopParts) {
    this.#parts = parts;
  }

  /** Resolves when the end or the kill that is under way is over. */
  async settled(): Promise<void> {
    await Promise.allSettled([this.#ending, this.#killing]);
  }

  /** Kills the process of an interrupted turn. The next message starts another. */
  async kill(): Promise<void> {
    const { context, life } = this.#parts;
    if (!life.process) return;
    life.stop("interrupt");
    try {
      await this.#kill();
    } catch (error) {
      context.giveUp(error);
      throw error;
    }
  }

  /** Ends the process, and resolves when its last output is in the log. */
  shutDown(reason: Exclude<Stop, "remove">): Promise<void> {
    const { life, start } = this.#parts;
    life.stop(reason);
    start.withdraw();
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Ends a process that wrote more than it may. */
  async refuseOutput(): Promise<void> {
    const { context, life } = this.#parts;
    const { deps, writer, exclusive, commit } = context;
    if (life.isStopping) return;
    const message = `the agent wrote more than ${deps.limits.maxOutputBytes} bytes in one process and was stopped`;
    const told = exclusive(() =>
      commit(writer.drafts([{ type: "error", source: "daemon", data: { code: "too_large", message } }])),
    );
    await Promise.all([told, this.shutDown("failure")]);
  }

  /** Ends every process of the session, which is being removed. Nothing is appended: the log goes too. */
  demolish(): Promise<void> {
    const { life, start } = this.#parts;
    life.stop("remove");
    start.withdraw();
    // A later stop, such as that of the idle alarm, waits for this one.
    this.#ending = this.#demolish(this.#ending);
    return this.#ending;
  }

  async #demolish(before: Promise<void> | undefined): Promise<void> {
    const { context, sandbox, life, start, intake } = this.#parts;
    await start.settled();
    await sandbox.settled();
    await before?.catch(() => {});
    start.leaveQueue();
    await intake()?.detach();
    await sandbox.release();
    await intake()?.done;
    // Not every sandbox can kill frozen processes.
    if (context.writer.fold.paused) await (await sandbox.reachable())?.resume?.();
    const { process } = life;
    if (process) {
      await process.kill();
      await process.spool.remove();
      life.exited();
      return;
    }
    const { processOpen, command } = context.writer.fold;
    if (processOpen || command) await (await sandbox.reachable())?.killAll();
  }

  async #end(): Promise<void> {
    const { context, sandbox, life, start, intake, advance } = this.#parts;
    const { deps, writer, giveUp, isClosed } = context;
    try {
      await start.settled();
      await sandbox.settled();
      // A frozen process cannot exit by itself, and not every provider can kill one.
      if (writer.fold.paused) await resumeSandbox(context, sandbox);
      if (life.reason === "idle" && life.process) {
        await life.process.spool.closeInput();
        await isLate(intake()?.done, deps.limits.gentleMs);
      }
      await this.#kill();
      if (!life.isEnding) await this.#endFailed();
    } catch (error) {
      // It is unknown which processes still run. The session is opened again, which finds out, as after a crash.
      giveUp(error);
      throw error;
    }
    // The stop is over: a later call has to begin a new one.
    if (life.reason !== "remove") this.#ending = undefined;
    if (isClosed()) return;
    life.stopped();
    advance();
  }

  /** Ends a session that cannot go on without its agent. */
  async #endFailed(): Promise<void> {
    const { writer, exclusive, commit } = this.#parts.context;
    await exclusive(async () => {
      const { fold } = writer;
      const why = mustEnd(writer);
      if (why === null || fold.ended) return;
      const drafts = writer.drafts();
      endSession(fold, drafts, sessionFailure(why));
      await commit(drafts);
    });
  }

  #kill(): Promise<void> {
    this.#killing ??= this.#killProcess().finally(() => {
      this.#killing = undefined;
      this.#endInterrupt();
    });
    return this.#killing;
  }

  async #killProcess(): Promise<void> {
    const { context, sandbox, life, intake } = this.#parts;
    const { process } = life;
    const reader = intake();
    if (!process || !reader) {
      await (await sandbox.reachable())?.killAll();
      return;
    }
    await process.kill();
    if ((await reader.unread()) > context.deps.limits.maxUnreadBytes) await reader.abandon();
    await reader.done;
  }

  /**
   * Ends an interrupt's stop when both the process and the kill have ended. A stop for another reason ends by itself.
   */
  #endInterrupt(): void {
    const { context, life, advance } = this.#parts;
    if (context.isClosed() || life.reason !== "interrupt" || life.process) return;
    life.stopped();
    advance();
  }
}
