import { constants } from "node:os";
import { setImmediate as immediate } from "node:timers/promises";
import { SluiceError, type EventData, type EventDraft, type SpoolLine } from "../contract/index.ts";
import type { Sandbox } from "../sandbox/port.ts";
import type { SpoolBatch } from "../spool/port.ts";
import { admitFact } from "./admit.ts";
import { attachProcess, connectSandbox, createSandbox, startProcess } from "./boot.ts";
import { closeTurn } from "./closing.ts";
import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./drafts.ts";
import { processEnd, sessionFailure, type Stop } from "./ending.ts";
import type { HarnessProcess } from "./process.ts";
import { startTurn } from "./start.ts";
import { waitingChange } from "./waiting.ts";
import type { CommitExtra, SessionWriter } from "./writer.ts";

const { signals } = constants;

/** What the runner may do with the session that it belongs to. */
export interface RunnerContext {
  readonly deps: SessionDeps;
  readonly writer: SessionWriter;
  readonly isClosed: () => boolean;
  exclusive<T>(task: () => Promise<T>): Promise<T>;
  commit(drafts: Drafts, extra?: CommitExtra): Promise<void>;
  inBackground(task: Promise<unknown>): void;
  giveUp(error: unknown): void;
}

/** The harness process of a session, through all its lives: booted when there is work, followed, ended, found again. */
export class Runner {
  readonly #context: RunnerContext;
  #process: HarnessProcess | undefined;
  #following: { abort: AbortController; done: Promise<void> } | undefined;
  #booting: Promise<void> | undefined;
  #stop: Stop | undefined;

  constructor(context: RunnerContext) {
    this.#context = context;
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
    const isFree = !fold.turn && !fold.ended && !fold.paused && fold.mustEnd === null;
    return this.#process !== undefined && this.#stop === undefined && isFree && !deps.draining();
  }

  /** Picks up the process that an earlier life left open; call it under the lock. */
  async recover(): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const { row, fold } = writer;
    if (!fold.processOpen) return;
    const process = await attachProcess(deps, row, fold);
    if (!process) {
      await commit(writer.drafts(processEnd(fold, { process: fold.processes, reason: "lost" }, undefined)));
      return;
    }
    this.#follow(process);
    await this.deliverOutbox();
  }

  /** Starts what can be started: the next queued input, in a process that is booted for it if there is none. */
  advance(): void {
    const { deps, writer, isClosed, inBackground } = this.#context;
    const { fold } = writer;
    if (isClosed() || this.#booting || this.#stop !== undefined || fold.ended) return;
    if (fold.mustEnd !== null) return inBackground(this.shutDown("failure"));
    if (fold.turn || fold.paused || fold.inbox.length === 0 || deps.draining()) return;
    if (this.#process) return inBackground(this.#startQueued());
    this.#booting = this.#boot().finally(() => {
      this.#booting = undefined;
      this.advance();
    });
    inBackground(this.#booting);
  }

  /** Tells the harness all that the log says it must have been told. */
  async deliverOutbox(): Promise<void> {
    const process = this.#process;
    if (!process) return;
    const { deps, writer } = this.#context;
    for (const { id, command } of writer.fold.turn?.outbox ?? []) {
      if (await process.deliver(id, command)) continue;
      if (command.type === "interrupt") await this.signal("SIGINT");
      else
        deps.logger({
          level: "warn",
          message: `the agent has no words for "${command.type}"`,
          session: writer.row.id,
        });
    }
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    const pid = await this.#process?.spool.pid();
    if (pid !== undefined) await this.#process?.sandbox.signal(pid, signal);
  }

  /** Ends every process of the sandbox; no turn starts in it any more, and what its end means is decided when it is seen. */
  async kill(): Promise<void> {
    this.#stop ??= "interrupt";
    await this.#process?.kill();
  }

  /** Whether the process has said more than we have read: then it may have stopped already. */
  async isBehind(): Promise<boolean> {
    const process = this.#process;
    return process !== undefined && (await process.spool.length()) > process.offset;
  }

  /** The session's sandbox, made if there is none; call it under the lock. */
  sandbox(): Promise<Sandbox> {
    const { deps, writer, commit } = this.#context;
    const record = (event: EventDraft): Promise<void> => commit(writer.drafts([event]));
    return createSandbox(deps, writer.row.spec, writer.fold.sandbox, record);
  }

  /** Stops every process of the sandbox where it stands. */
  async pause(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    await exclusive(async () => {
      if (writer.fold.paused) return;
      const sandbox = await this.sandbox();
      if (!sandbox.pause) throw lacks(sandbox, "pause");
      await sandbox.pause();
      await commit(writer.drafts([{ type: "sandbox.paused", source: "daemon", data: factOf(sandbox) }]));
    });
  }

  async resume(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    await exclusive(async () => {
      if (!writer.fold.paused) return;
      const sandbox = await this.sandbox();
      if (!sandbox.resume) throw lacks(sandbox, "resume");
      await sandbox.resume();
      await commit(writer.drafts([{ type: "sandbox.resumed", source: "daemon", data: factOf(sandbox) }]));
    });
    this.advance();
  }

  async host(port: number): Promise<URL> {
    const sandbox = await this.#context.exclusive(() => this.sandbox());
    if (!sandbox.host) throw lacks(sandbox, "forward ports");
    return sandbox.host(port);
  }

  async destroySandbox(): Promise<void> {
    const { deps, writer } = this.#context;
    const known = writer.fold.sandbox;
    if (known) await (await connectSandbox(deps, known))?.destroy();
  }

  /** Ends the process for good and answers when its last output is in the log. */
  async shutDown(stop: Stop): Promise<void> {
    const { deps, writer, exclusive, commit } = this.#context;
    this.#stop = stop;
    await this.#booting?.catch(() => {});
    // A frozen process can neither end by itself nor be killed everywhere.
    if (writer.fold.paused) await this.resume();
    const process = this.#process;
    const following = this.#following;
    if (process && following) {
      if (stop === "idle") await endGently(process, following.done, deps.limits.gentleMs);
      await process.kill();
      await following.done;
    } else if (writer.fold.sandbox) {
      await (await connectSandbox(deps, writer.fold.sandbox))?.killAll();
    }
    if (this.isEnding) return;
    this.#stop = undefined;
    await exclusive(async () => {
      const { mustEnd, ended } = writer.fold;
      if (mustEnd !== null && !ended) await commit(writer.drafts([sessionFailure(mustEnd)]));
    });
    this.advance();
  }

  /** Stops looking, and ends nothing. */
  detach(): void {
    this.#following?.abort.abort();
  }

  async settled(): Promise<void> {
    await this.#booting?.catch(() => {});
    await this.#following?.done;
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
      const sandbox = await createSandbox(deps, row.spec, fold.sandbox, record);
      await exclusive(async () => {
        if (fold.ended || this.#stop !== undefined) return;
        const ordinal = fold.processes + 1;
        const resumed = fold.nativeSessionId ?? undefined;
        const started = {
          process: ordinal,
          harness: row.spec.agent,
          ...(resumed === undefined ? {} : { resumed }),
        };
        await commit(writer.drafts([{ type: "process.started", source: "daemon", data: started }]));
        this.#follow(await startProcess(deps, row, sandbox, { ordinal, resumed }));
        const drafts = writer.drafts();
        if (this.canStartTurn) startTurn(fold, drafts);
        await commit(drafts);
      });
    } catch (error) {
      if (isClosed()) throw error;
      await exclusive(() => this.#failToStart(error));
    }
  }

  /** A turn that could not even start still starts and ends: its sender waits for one terminal event. */
  async #failToStart(error: unknown): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const { fold, row } = writer;
    const message = error instanceof Error ? error.message : String(error);
    const code = error instanceof SluiceError ? error.code : "internal";
    deps.logger({
      level: "error",
      message: "the agent could not be started",
      session: row.id,
      error: message,
    });
    const drafts = writer.drafts();
    if (fold.processOpen) {
      drafts.add({
        type: "process.ended",
        source: "daemon",
        data: { process: fold.processes, reason: "lost" },
      });
    }
    if (!fold.turn) startTurn(fold, drafts);
    drafts.add({ type: "error", source: "daemon", data: { code, message } });
    drafts.addAll(closeTurn(fold, { status: "failed", stopReason: "agent_lost", error: { code, message } }));
    await commit(drafts);
  }

  #follow(process: HarnessProcess): void {
    const { exclusive, isClosed, giveUp } = this.#context;
    const abort = new AbortController();
    const loop = async (): Promise<void> => {
      for await (const batch of process.follow(abort.signal)) {
        if (isClosed()) return;
        await exclusive(() => this.#ingest(process, batch));
        // Between two batches everybody else gets the thread: sockets, other sessions, timers.
        await immediate();
      }
    };
    this.#process = process;
    this.#following = { abort, done: loop().catch(giveUp) };
  }

  /** Native lines become committed events: one batch, one transaction, the spool's offset in it. */
  async #ingest(process: HarnessProcess, batch: SpoolBatch): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const drafts = writer.drafts();
    for (const [index, native] of batch.lines.entries()) {
      const line = process.clean(native);
      const replies = this.#admit(process, drafts, line, batch.lines[index + 1]?.at ?? batch.offset);
      // Said before the commit, under an id that decoding again would give again: told exactly once.
      if (replies && replies.length > 0) await process.send(`reply:${line.at}`, replies);
    }
    process.advance(batch.offset);
    if (batch.exit) await this.#admitExit(process, drafts, batch);
    await commit(drafts, { ingests: process });
    if (batch.exit) await this.#forget(process);
    else if (process.offset > deps.limits.maxOutputBytes) await this.#refuseOutput();
    this.advance();
  }

  #admit(
    process: HarnessProcess,
    drafts: Drafts,
    line: SpoolLine,
    end: number,
  ): readonly string[] | undefined {
    const { fold, row } = this.#context.writer;
    const { facts, replies } = process.decode(line, end);
    if (facts.length === 0) return replies;
    const options = { spec: row.spec, raw: rawOf(line, facts), location: `${line.dir}:${line.at}` };
    for (const fact of facts) admitFact(fold, drafts, fact, options);
    // Asked after every line and not after every batch: how output is cut must not show in the log.
    const waiting = waitingChange(fold);
    if (waiting) drafts.add(waiting);
    return replies;
  }

  async #admitExit(process: HarnessProcess, drafts: Drafts, { exit, offset }: SpoolBatch): Promise<void> {
    if (!exit) return;
    this.#admit(process, drafts, { dir: "exit", text: JSON.stringify(exit), at: offset, exit }, offset);
    const stderr = await process.spool.stderr();
    const code =
      exit.code ?? (exit.signal === undefined ? undefined : 128 + signals[exit.signal as NodeJS.Signals]);
    const ended: EventData<"process.ended"> = {
      process: process.ordinal,
      reason: this.#stop !== undefined ? "stopped" : exit.lost === true ? "lost" : "exited",
      ...(code === undefined ? {} : { exit_code: code }),
      ...(exit.signal === undefined ? {} : { signal: exit.signal }),
      ...(stderr.total_lines ? { stderr } : {}),
    };
    drafts.addAll(processEnd(this.#context.writer.fold, ended, this.#stop));
  }

  async #forget(process: HarnessProcess): Promise<void> {
    this.#process = undefined;
    this.#following = undefined;
    if (this.#stop === "interrupt") this.#stop = undefined;
    // Children that the agent left behind end with it.
    await process.sandbox.killAll();
    await process.spool.remove();
  }

  async #refuseOutput(): Promise<void> {
    if (this.#stop !== undefined) return;
    const { deps, writer, commit, inBackground } = this.#context;
    const message = `the agent printed more than ${deps.limits.maxOutputBytes} bytes in one process and was stopped`;
    await commit(writer.drafts([{ type: "error", source: "daemon", data: { code: "too_large", message } }]));
    inBackground(this.shutDown("failure"));
  }
}

function factOf({ id, provider }: Sandbox): { sandbox_id: string; provider: string } {
  return { sandbox_id: id, provider };
}

function lacks({ provider }: Sandbox, capability: string): SluiceError {
  return new SluiceError(
    "capability_missing",
    `a ${provider} sandbox cannot ${capability}; use another provider`,
  );
}

async function endGently(process: HarnessProcess, done: Promise<void>, patienceMs: number): Promise<void> {
  await process.spool.closeInput();
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise((resolve) => {
    timer = setTimeout(resolve, patienceMs);
  });
  await Promise.race([done, patience]);
  clearTimeout(timer);
}

/** A native line is JSON text as it is; what is not JSON becomes a JSON string. */
function rawOf(line: SpoolLine, facts: readonly { type: string }[]): string {
  const isJson =
    line.text.startsWith("{") && !line.damage && facts.every((fact) => fact.type !== "agent.unparsed");
  return isJson ? line.text : JSON.stringify(line.text);
}
