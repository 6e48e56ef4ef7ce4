import { createId, SluiceError, type EventDraft, type SessionInfo } from "../contract/index.ts";
import type { Remembered, SessionRow } from "../log/port.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import type { SandboxFiles } from "../sandbox/port.ts";
import { Alarms } from "./alarms.ts";
import { closeTurn } from "./closing.ts";
import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./drafts.ts";
import { dueOf, type Due } from "./due.ts";
import { endSession, TERMINATED } from "./ending.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { isActive } from "./fold.ts";
import { toSessionInfo } from "./info.ts";
import { Keeper } from "./keeper.ts";
import { Lock } from "./lock.ts";
import type { AcceptedInput, SessionInput } from "./port.ts";
import { replyEvent, type Reply } from "./replies.ts";
import { Runner } from "./runner.ts";
import { startTurn } from "./start.ts";
import { SessionWriter, type CommitExtra } from "./writer.ts";

/** How often an interrupted agent that still has unread output is waited for once more. */
const PATIENCE = 10;

/**
 * One live session. Everything that changes it happens under its lock, is appended first and acted on
 * afterwards. When an append fails, the object is given up and the session is opened again from its log,
 * exactly as after a crash.
 */
export class Session {
  readonly id: string;
  readonly #deps: SessionDeps;
  readonly #writer: SessionWriter;
  readonly #runner: Runner;
  readonly #keeper: Keeper;
  readonly #lock = new Lock();
  readonly #alarms = new Alarms();
  readonly #turnWaiters = new Map<string, (() => void)[]>();
  #closed = false;
  /** What it was given up for, where that is for whoever waits to know. */
  #reason: SluiceError | undefined;

  private constructor(deps: SessionDeps, writer: SessionWriter) {
    this.id = writer.row.id;
    this.#deps = deps;
    this.#writer = writer;
    this.#keeper = new Keeper(deps.checkpoints, writer);
    this.#runner = new Runner({
      deps,
      keeper: this.#keeper,
      writer,
      isClosed: () => this.#closed,
      exclusive: (task) => this.#exclusive(task),
      commit: (drafts, extra) => this.#commit(drafts, extra),
      inBackground: (task) => this.#inBackground(task),
      giveUp: (error) => this.#giveUp(error),
    });
  }

  /** Takes the session over from whoever had it, and picks up what was left running. */
  static async open(deps: SessionDeps, row: SessionRow): Promise<Session> {
    const session = new Session(deps, await SessionWriter.claim(deps, row));
    await session.#exclusive(async () => {
      await session.#runner.recover();
      session.#setAlarms();
    });
    session.#runner.advance();
    return session;
  }

  /** Whether a crash now would leave something to pick up. */
  get isActive(): boolean {
    return this.#runner.isBooting || isActive(this.#writer.fold);
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

  get hasProcess(): boolean {
    return this.#runner.process !== undefined;
  }

  info(): SessionInfo {
    const { row, fold, lastTime } = this.#writer;
    return toSessionInfo({ ...row, updatedAt: lastTime }, fold, this.#deps.defaultSandbox);
  }

  send(input: SessionInput): Promise<AcceptedInput> {
    return this.#exclusive(async () => {
      const { fold } = this.#writer;
      const remembered =
        input.key === undefined ? undefined : { key: input.key, fingerprint: fingerprintOf(input) };
      const known = remembered && (await this.#deps.log.recall(this.id, remembered.key));
      if (known) return recalled(known, remembered.fingerprint);
      this.#refuseEnded();
      if (this.#deps.draining())
        throw new SluiceError("draining", "send it again in a moment: the server is restarting");
      const accepted = { inputId: createId("input"), turnId: createId("turn"), after: fold.head };
      const drafts = this.#writer.drafts(fold.started ? [] : [this.#started()]);
      drafts.add(acceptance(accepted, input));
      if (this.#runner.canStartTurn && fold.inbox.length === 1) startTurn(fold, drafts);
      const key = remembered && { ...remembered, answer: JSON.stringify(accepted) };
      await this.#commit(drafts, key === undefined ? {} : { key });
      this.#runner.advance();
      return { ...accepted, duplicate: false };
    });
  }

  /** Answers when the turn has ended. */
  async interrupt(by?: string): Promise<{ turnId?: string }> {
    // Nobody hears an interrupt while frozen.
    await this.#runner.resume();
    const interrupted = await this.#exclusive(async () => {
      const { turn } = this.#writer.fold;
      if (!turn) return undefined;
      const ended = this.#turnEnd(turn.id);
      await this.#requestInterrupt(by);
      return { turnId: turn.id, ended };
    });
    if (!interrupted) return {};
    await interrupted.ended;
    return { turnId: interrupted.turnId };
  }

  reply(id: string, reply: Reply): Promise<void> {
    return this.#exclusive(() => this.#append([replyEvent(this.#writer.fold, id, reply)]));
  }

  async terminate(): Promise<void> {
    const { fold } = this.#writer;
    if (fold.ended) return;
    await this.#runner.shutDown("terminate");
    await this.#exclusive(async () => {
      if (fold.ended) return;
      const drafts = this.#writer.drafts(fold.started ? [] : [this.#started()]);
      const data = { reason: "terminated", terminated_by: "daemon" } as const;
      endSession(fold, drafts, { type: "session.ended", source: "daemon", data });
      await this.#commit(drafts);
    });
  }

  /** Ends all that runs and says `session.deleted`; removing the rows is the engine's part. */
  async remove(): Promise<void> {
    await this.#runner.demolish();
    // On a full disk this fails, and the session goes all the same.
    await this.#exclusive(async () => {
      const drafts = this.#writer.drafts(closeTurn(this.#writer.fold, TERMINATED));
      drafts.add({ type: "session.deleted", source: "daemon", data: {} });
      await this.#commit(drafts);
    }).finally(() => this.#letGo());
  }

  files(): Promise<SandboxFiles> {
    return this.#exclusive(async () => {
      const kept = await this.#runner.connected();
      if (!kept) this.#refuseEnded();
      return (kept ?? (await this.#runner.sandbox())).files;
    });
  }

  checkpoint(comment: string | undefined): Promise<CheckpointInfo> {
    return this.#exclusive(async () => {
      this.#refuseTurn("be checkpointed");
      const { info, event } = await this.#keeper.keep(await this.#runner.sandbox(), comment);
      await this.#append([event]);
      return info;
    });
  }

  /** The agent's process ends first; the next message starts it again, with the memory that was restored. */
  async restore(checkpoint: string): Promise<CheckpointInfo> {
    this.#refuseEnded();
    this.#refuseTurn("be restored");
    await this.sleep();
    return this.#exclusive(async () => {
      this.#refuseTurn("be restored");
      const { info, events } = await this.#keeper.restore(await this.#runner.sandbox(), checkpoint);
      await this.#append(events);
      return info;
    });
  }

  pause(): Promise<void> {
    this.#refuseEnded();
    return this.#runner.pause();
  }

  resume(): Promise<void> {
    return this.#runner.resume();
  }

  host(port: number): Promise<URL> {
    this.#refuseEnded();
    return this.#runner.host(port);
  }

  /** Ends an idle process; the next message starts it again where it was. */
  async sleep(): Promise<void> {
    if (this.#runner.process && !this.hasTurn) await this.#runner.shutDown("idle");
  }

  /** Lets go without ending anything: the process, if there is one, is found again at the next start. */
  async close(): Promise<void> {
    this.#letGo();
    await this.#runner.settled();
  }

  #exclusive<T>(task: () => Promise<T>): Promise<T> {
    return this.#lock.run(async () => {
      if (this.#closed)
        throw this.#reason ?? new SluiceError("stream_error", "the session was being reopened; try again");
      return task();
    });
  }

  async #append(events: readonly EventDraft[]): Promise<void> {
    await this.#commit(this.#writer.drafts(events));
  }

  /** First the log, then the world: whoever waits, the alarms, the harness. */
  async #commit(drafts: Drafts, extra: CommitExtra = {}): Promise<void> {
    try {
      await this.#writer.commit(drafts, extra);
      if (!drafts.movesTurn) return;
      this.#settleTurnWaiters();
      this.#setAlarms();
      await this.#runner.deliverOutbox();
    } catch (error) {
      this.#giveUp(error);
      throw error;
    }
  }

  #giveUp(error: unknown): void {
    if (this.#closed) return;
    if (error instanceof SluiceError && error.code === "storage_full") this.#reason = error;
    this.#letGo();
    this.#deps.onGivenUp(this, error);
  }

  #letGo(): void {
    this.#closed = true;
    this.#setAlarms();
    void this.#runner.detach();
    this.#settleTurnWaiters();
  }

  async #requestInterrupt(by: string | undefined): Promise<void> {
    const { turn } = this.#writer.fold;
    if (!turn || turn.interrupt) return;
    const data = { turn_id: turn.id, ...(by === undefined ? {} : { by }) };
    await this.#append([{ type: "interrupt.requested", source: "daemon", data }]);
  }

  #setAlarms(): void {
    const { row, fold, lastTime } = this.#writer;
    const { turnTimeoutMs = this.#deps.limits.turnTimeoutMs } = row.spec;
    const due = this.#closed
      ? []
      : dueOf(fold, {
          limits: { ...this.#deps.limits, turnTimeoutMs },
          hasProcess: this.hasProcess,
          lastTime,
        });
    this.#alarms.keepOnly(new Set(due.map(({ what }) => what)));
    const turnId = fold.turn?.id;
    for (const { what, at } of due)
      this.#alarms.set(what, at, () => this.#inBackground(this.#ring(what, turnId)));
  }

  async #ring(what: Due["what"], turnId: string | undefined): Promise<void> {
    const { fold } = this.#writer;
    if (fold.turn?.id !== turnId) return;
    if (what === "sleep") return this.sleep();
    if (what === "signal" || what === "kill") return this.#force(what, turnId);
    await this.#exclusive(async () => {
      if (!fold.turn || fold.turn.id !== turnId) return;
      if (what === "timeout") return this.#requestInterrupt("timeout");
      if (fold.turn.retry === null) return;
      await this.#append([
        { type: "turn.resumed", source: "daemon", data: { turn_id: turnId, reason: "retry" } },
      ]);
    });
  }

  /** Stops an agent that did not stop when asked, unless its last words have only not been read yet. */
  async #force(how: "signal" | "kill", turnId: string | undefined): Promise<void> {
    const { fold } = this.#writer;
    const { interruptMs } = this.#deps.limits;
    for (let patience = PATIENCE; patience > 0 && (await this.#runner.isBehind()); patience -= 1) {
      await new Promise((resolve) => setTimeout(resolve, interruptMs));
      if (fold.turn?.id !== turnId || this.#closed) return;
    }
    return how === "kill" ? this.#runner.kill() : this.#runner.signal("SIGINT");
  }

  #turnEnd(turnId: string): Promise<void> {
    return new Promise((resolve) => {
      this.#turnWaiters.set(turnId, [...(this.#turnWaiters.get(turnId) ?? []), resolve]);
    });
  }

  #settleTurnWaiters(): void {
    for (const [turnId, waiters] of this.#turnWaiters) {
      if (this.#writer.fold.turn?.id === turnId && !this.#closed) continue;
      this.#turnWaiters.delete(turnId);
      for (const resolve of waiters) resolve();
    }
  }

  #started(): EventDraft {
    const { agent, directory, model } = this.#writer.row.spec;
    const metadata = {
      agent,
      ...(directory === undefined ? {} : { directory }),
      ...(model === undefined ? {} : { model }),
    };
    return { type: "session.started", source: "daemon", data: { metadata } };
  }

  #refuseEnded(): void {
    const { ended } = this.#writer.fold;
    if (!ended && !this.#runner.isEnding) return;
    throw new SluiceError(
      "session_ended",
      `session ${this.id} has ended (${ended?.reason ?? "terminated"}); create a new one`,
    );
  }

  #refuseTurn(what: string): void {
    if (!this.hasTurn && !this.#runner.isBooting) return;
    throw new SluiceError(
      "session_busy",
      `a session cannot ${what} while a turn runs; wait for its end, or interrupt it`,
    );
  }

  #inBackground(task: Promise<unknown>): void {
    task.catch((error: unknown) => this.#giveUp(error));
  }
}

function acceptance(accepted: { inputId: string; turnId: string }, input: SessionInput): EventDraft {
  return {
    type: "input.accepted",
    source: "daemon",
    data: {
      input_id: accepted.inputId,
      turn_id: accepted.turnId,
      via: input.via,
      content: [...input.content],
      ...(input.payload === undefined ? {} : { payload: input.payload }),
    },
  };
}

function recalled(known: Remembered, fingerprint: string): AcceptedInput {
  if (known.fingerprint === fingerprint)
    return { ...(JSON.parse(known.answer) as AcceptedInput), duplicate: true };
  throw new SluiceError(
    "idempotency_conflict",
    "this Idempotency-Key came with another message before; use a new key for a new message",
  );
}
