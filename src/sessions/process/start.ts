import { SluiceError, type EventDraft } from "../../contract/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { SessionContext } from "../context.ts";
import { messageOf } from "../failure.ts";
import { isHeld } from "../fold/session-fold.ts";
import { instructionChange } from "../inbox/instructions.ts";
import type { SessionSandbox } from "../sandbox/session-sandbox.ts";
import { startTurn } from "../turn/turn-start.ts";
import type { Leave } from "./admission.ts";
import { credentialOf } from "../secrets/lead-plan.ts";
import { endUnstarted } from "./ending.ts";
import { launchProcess } from "./launch.ts";
import type { ProcessLife } from "./life.ts";
import type { HarnessProcess } from "./process.ts";

/** An agent that prints nothing for this long after its start no longer counts as starting. */
const SETTLED_MS = 2_000;

export interface StartParts {
  readonly context: SessionContext;
  readonly sandbox: SessionSandbox;
  readonly life: ProcessLife<HarnessProcess>;
  /** Reads the output of the new process. */
  listen(process: HarnessProcess): Promise<void>;
  /** Stops reading. The process runs on. */
  detach(): Promise<void>;
  canStartTurn(): boolean;
  /** Called after every start, also one that failed. */
  advance(): void;
}

/** The start of a session's agent: the queue of all starts, then the sandbox, then the process. */
export class ProcessStart {
  readonly #parts: StartParts;
  #booted: Promise<void> = Promise.resolve();
  #withdrawal = new AbortController();
  #leave: Leave = () => {};

  constructor(parts: StartParts) {
    this.#parts = parts;
  }

  begin(): void {
    const { context, life, advance } = this.#parts;
    life.start();
    this.#withdrawal = new AbortController();
    this.#booted = this.#boot().finally(advance);
    context.inBackground(this.#booted);
  }

  /** Takes a waiting start out of the queue. */
  withdraw(): void {
    this.#withdrawal.abort();
  }

  /** Lets the next session start its agent. */
  leaveQueue(): void {
    this.#leave();
  }

  /** Resolves when no start is under way, failed or not. */
  async settled(): Promise<void> {
    await this.#booted.catch(() => {});
  }

  async #boot(): Promise<void> {
    const { context, sandbox: sessionSandbox, life } = this.#parts;
    const { deps, writer, exclusive, isClosed } = context;
    const { fold } = writer;
    const leave = await deps.starts.enter(this.#withdrawal.signal);
    if (!leave) return life.unstarted();
    this.#leave = leave;
    try {
      if (life.state === "queued") life.admitted();
      const sandbox = await sessionSandbox.made();
      await exclusive(async () => {
        // Nothing starts in a sandbox that is frozen or moves; the end of that tries again.
        const isWanted = fold.inbox.length > 0 && !fold.ended && !isHeld(fold);
        if (!isWanted || life.isStopping) return life.unstarted();
        await this.#launch(sandbox);
      });
    } catch (error) {
      if (isClosed()) throw error;
      await exclusive(async () => {
        life.unstarted();
        await this.#fail(error);
      });
    } finally {
      if (life.state === "running") setTimeout(leave, SETTLED_MS).unref();
      else leave();
    }
  }

  /** Appends `process.started`, then starts the process. Call it under the lock. */
  async #launch(sandbox: Sandbox): Promise<void> {
    const { context, life, listen, detach, canStartTurn } = this.#parts;
    const { deps, writer, commit } = context;
    const { row, fold } = writer;
    const ordinal = fold.processes + 1;
    // A machine elsewhere, or its node, may have been replaced: an agent has no memory in an empty sandbox.
    const mayBeNew = deps.lease.isShared || sandbox.programs !== undefined;
    const known = fold.nativeSessionId ?? undefined;
    const resumed = known && mayBeNew && (await isUntouched(sandbox)) ? undefined : known;
    const data = {
      process: ordinal,
      harness: row.spec.agent,
      ...(resumed === undefined ? {} : { resumed }),
      // An error here comes again at the launch, and is reported there.
      ...(await credentialOf(deps, { ...row, spec: writer.spec }, sandbox).catch(() => ({}))),
    };
    await commit(
      writer.drafts([...instructionChange(writer), { type: "process.started", source: "daemon", data }]),
    );
    const told: EventDraft[] = [];
    const tell = (events: readonly EventDraft[]): void => void told.push(...events);
    // The spec has the new instructions since the commit.
    const changed = { ...row, spec: writer.spec };
    const process = await launchProcess(deps, changed, sandbox, { ordinal, resumed, tell });
    life.started(process);
    try {
      await listen(process);
    } catch (error) {
      await detach();
      await discard(process, { alone: !fold.command });
      throw error;
    }
    const drafts = writer.drafts();
    if (canStartTurn()) startTurn(fold, drafts);
    drafts.addAll(told);
    await commit(drafts);
  }

  /** Appends the reason of a failed start, and ends the turn that needed it. Call it under the lock. */
  async #fail(error: unknown): Promise<void> {
    const { deps, writer, commit } = this.#parts.context;
    const { fold, row } = writer;
    const message = messageOf(error);
    const code = error instanceof SluiceError ? error.code : "internal";
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
}

/** Ends a started process that cannot be used. With `alone`, everything in its sandbox ends with it. */
async function discard(process: HarnessProcess, { alone }: { alone: boolean }): Promise<void> {
  const { name, spool, sandbox } = process;
  if (alone) await sandbox.killAll();
  else await sandbox.processes.signal(name, "SIGKILL");
  await spool.remove();
}

/** Whether nothing was ever written to the home: on another machine the agent's memory stayed behind. */
async function isUntouched({ files, paths }: Sandbox): Promise<boolean> {
  const entries = await files.list(paths.home).catch(() => undefined);
  return entries?.length === 0;
}
