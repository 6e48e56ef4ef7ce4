import { rm } from "node:fs/promises";
import { join } from "node:path";
import {
  createId,
  SessionId,
  SluiceError,
  type RunCommand,
  type SessionInfo,
  type SessionSpec,
  type EventData,
} from "../contract/index.ts";
import { coverageOf } from "../harness/coverage.ts";
import type { Harness } from "../harness/port.ts";
import { findHarness, harnesses as builtIn } from "../harness/registry.ts";
import type { EventLog, SessionRow } from "../log/port.ts";
import { sessionExists } from "../log/refusals.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import { defaultProviders } from "../sandbox/choose.ts";
import type { SandboxFiles, SandboxProvider } from "../sandbox/port.ts";
import { PINNED } from "../sandbox/host/mapping.ts";
import { Caretaker } from "./caretaker.ts";
import type { SessionChange } from "./change.ts";
import { createSessionDeps } from "./createDeps.ts";
import { messageOf } from "./damage.ts";
import type { SessionDeps } from "./deps.ts";
import type { EngineOptions } from "./engineOptions.ts";
import type { QueuedInput } from "./fold.ts";
import { toOldest, toSessionInfo } from "./info.ts";
import { loadFold } from "./load.ts";
import { OpenSessions } from "./openSessions.ts";
import type {
  AcceptedInput,
  AgentInfo,
  Engine,
  EngineStats,
  InterruptOptions,
  SessionInput,
  StartedCommand,
  SubmitOptions,
  Submitted,
} from "./port.ts";
import { forgetSecrets, keepSecrets } from "./secretFiles.ts";
import type { Session } from "./session.ts";
import { Retention } from "./retention.ts";
import { refuseSpec } from "./specRefusals.ts";
import type { Submission } from "./submission.ts";
import { UnfinishedForks } from "./unfinishedForks.ts";
import { Upkeep } from "./upkeep.ts";

/** Starts the engine: what an earlier life left running is picked up before this answers, unless it is told otherwise. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const root = join(options.dataDir, "sandboxes");
  const providers = options.providers ?? defaultProviders({ root, hide: [options.dataDir] });
  const engine = new LocalEngine(options, providers);
  await engine.start();
  if (!options.recoversBeside) await engine.recovered;
  return engine;
}

class LocalEngine implements Engine {
  readonly log: EventLog;
  readonly #harnesses: readonly Harness[];
  readonly #deps: SessionDeps;
  readonly #dataDir: string;
  readonly #onCommit: NonNullable<EngineOptions["onCommit"]>;
  readonly #open: OpenSessions;
  readonly #upkeep: Upkeep;
  readonly #retention: Retention;
  readonly #forks: UnfinishedForks;
  readonly #caretaker: Caretaker;
  /** Settles when everything is picked up that was left by an earlier life. */
  recovered: Promise<void> = Promise.resolve();
  #draining: boolean;
  #stats = { turnsEnded: 0, eventsAppended: 0, batchesAppended: 0, appendFailures: 0 };

  constructor(options: EngineOptions, providers: readonly SandboxProvider[]) {
    this.log = options.log;
    this.#harnesses = options.harnesses ?? builtIn;
    this.#dataDir = options.dataDir;
    this.#draining = options.caretakes ?? false;
    this.#caretaker = new Caretaker({ dataDir: options.dataDir, afterMs: options.orphanMs ?? 0 });
    this.#onCommit = options.onCommit ?? (() => {});
    this.#deps = createSessionDeps(options, {
      harnesses: this.#harnesses,
      providers,
      runs: {
        list: (run) => this.#open.with(run.session, ({ tools }) => tools.list(run)),
        call: (run, call, waiting) =>
          this.#open.with(run.session, ({ tools }) => tools.call(run, call, waiting)),
        cancel: (run, callId) => this.#open.with(run.session, ({ tools }) => tools.cancel(run, callId)),
      },
      draining: () => this.#draining,
      onStart: () => this.#caretaker.begin(),
      count: (session, drafts) => {
        this.#onCommit(session, drafts.events);
        this.#stats.batchesAppended += 1;
        this.#stats.eventsAppended += drafts.events.length;
        if (drafts.endsTurn) this.#stats.turnsEnded += 1;
      },
      onGivenUp: (session, error) => {
        this.#stats.appendFailures += 1;
        this.#open.reopen(session, error);
      },
    });
    this.#open = new OpenSessions(this.#deps);
    this.#forks = new UnfinishedForks(options.dataDir, this.#deps.ourselves);
    this.#upkeep = new Upkeep(this.#deps, providers, this.#open);
    const { log, logger, limits } = this.#deps;
    const remove = (row: SessionRow): Promise<void> => this.remove(row.id, { restingAt: row.head });
    this.#retention = new Retention(options.retention ?? {}, {
      log,
      logger,
      roundMs: limits.retentionMs,
      remove,
    });
  }

  defaultSandbox(): Promise<string> {
    return this.#deps.defaultSandbox();
  }

  skillsFolder(agent: string): string | undefined {
    const { skillsFolder } = findHarness(agent, this.#harnesses);
    return skillsFolder === undefined ? undefined : `${PINNED.home}/${skillsFolder}`;
  }

  async agents(): Promise<AgentInfo[]> {
    return Promise.all(
      this.#harnesses.map(async (harness) => ({
        id: harness.id,
        title: harness.title,
        ...(await harness.detect({ withVersion: true })),
        ...harness.choices,
        capabilities: coverageOf(harness),
      })),
    );
  }

  async create(id: string | undefined, asked: SessionSpec): Promise<SessionInfo> {
    const sessionId = id ?? createId("session");
    const valid = SessionId.safeParse(sessionId);
    if (!valid.success)
      throw new SluiceError("invalid_request", valid.error.issues[0]?.message ?? "bad session id");
    if (this.#draining)
      throw new SluiceError("draining", "create it again in a moment: the server is restarting");
    const harness = findHarness(asked.agent, this.#harnesses);
    // Kept with the session: another default must not take its isolation away later.
    const spec = { ...asked, sandbox: asked.sandbox ?? (await this.#deps.defaultSandbox()) };
    await refuseSpec(spec, harness, this.#deps.provider(spec.sandbox));
    const { fork } = spec;
    const origin = fork && (fork.checkpoint ?? (await this.checkpoint(fork.session, { comment: "fork" })).id);
    if (origin === undefined) return this.#infoOf(await this.#store(sessionId, spec));
    await this.#storeCopy(sessionId, spec, origin);
    return this.info(sessionId);
  }

  async #store(id: string, given: SessionSpec): Promise<SessionRow> {
    const spec = await keepSecrets(given, this.#dataDir);
    try {
      const row = await this.log.create({ id, spec, owner: this.#deps.owner, time: Date.now() });
      this.#onCommit(id, []);
      if (spec.ttl !== undefined) this.#retention.begin();
      return row;
    } catch (error) {
      if (spec !== given) await forgetSecrets(spec, this.#dataDir);
      throw error;
    }
  }

  /** A session that could not begin as the copy that was asked for is none. */
  async #storeCopy(id: string, spec: SessionSpec, checkpoint: string): Promise<void> {
    if (await this.log.find(id)) throw sessionExists(id);
    await this.#forks.begin(id);
    try {
      await this.#store(id, spec);
      await this.restore(id, checkpoint).catch(async (error: unknown) => {
        await this.remove(id);
        throw error;
      });
    } finally {
      await this.#forks.end(id);
    }
  }

  /** Takes away what a crash left of a copy that was not whole. */
  async #removeHalfCopies(): Promise<void> {
    for (const id of await this.#forks.abandoned()) {
      const types = new Set(["checkpoint.restored"] as const);
      const row = await this.log.find(id);
      const isWhole =
        row && (row.floor > 0 || (await this.log.read(id, { after: 0, limit: 1, types })).length > 0);
      if (row && !isWhole) await this.remove(id);
      await this.#forks.end(id);
    }
  }

  async info(id: string): Promise<SessionInfo> {
    await this.#open.recovery(id);
    return this.#infoOf(await this.#open.row(id));
  }

  async inbox(id: string): Promise<readonly QueuedInput[]> {
    await this.#open.recovery(id);
    const row = await this.#open.row(id);
    const held = await this.#open.held(id);
    return held?.inbox ?? (await loadFold(this.log, row)).inbox;
  }

  async list(page: { cursor?: string; limit: number }): Promise<{ sessions: SessionInfo[]; next?: string }> {
    const before = page.cursor === undefined ? undefined : parseCursor(page.cursor);
    const rows = await this.log.list({ limit: page.limit + 1, ...(before === undefined ? {} : { before }) });
    const shown = rows.slice(0, page.limit);
    const sessions = await Promise.all(shown.map((row) => this.#infoOf(row)));
    const last = shown.at(-1);
    return rows.length > page.limit && last ? { sessions, next: String(last.ordinal) } : { sessions };
  }

  async remove(id: string, { restingAt }: { restingAt?: number } = {}): Promise<void> {
    const remove = async (session: Session): Promise<void> => {
      if (restingAt !== undefined && !session.restsAt(restingAt))
        throw new SluiceError("session_busy", `session ${id} is in use again`);
      try {
        await session.remove();
      } catch (error) {
        if (!(error instanceof SluiceError && error.code === "storage_full")) throw error;
      } finally {
        this.#open.drop(session);
      }
    };
    await this.#open.removing(id, async () => {
      await this.#open.withToEnd(id, remove, "at once");
      await this.#erase(id);
    });
  }

  /** What is left of a session when nothing of it runs any more. */
  async #erase(id: string): Promise<void> {
    await rm(join(this.#deps.spoolRoot, id), { recursive: true, force: true });
    await forgetSecrets((await this.#open.row(id)).spec, this.#dataDir);
    await this.log.remove(id);
  }

  /** The rows that were kept for readers, here or by an owner that is no more. */
  async #eraseRetired(): Promise<void> {
    for (const row of await this.#open.retired()) {
      await this.log.remove(row.id).catch((error: unknown) => {
        // Its last reader let go at this moment.
        if (!(error instanceof SluiceError && error.code === "session_not_found")) throw error;
      });
    }
  }

  #onUnerased(error: unknown): void {
    // Whoever closed the log before us wants nothing removed from it.
    if (error instanceof SluiceError && error.code === "draining") return;
    const message = "the rows of a deleted session could not be removed";
    this.#deps.logger({ level: "error", message, error: messageOf(error) });
  }

  async send(id: string, { via, key, ...message }: SessionInput): Promise<AcceptedInput> {
    const options = { via, ...(key === undefined ? {} : { key }) };
    const { after, accepted, duplicate } = await this.submit(id, [{ kind: "message", ...message }], options);
    const { inputId = "", turnId = "" } = accepted[0] ?? {};
    return { inputId, turnId, after, duplicate };
  }

  submit(id: string, submissions: readonly Submission[], options: SubmitOptions): Promise<Submitted> {
    return this.#open.with(id, (session) => session.submit(submissions, options));
  }

  report(id: string, error: EventData<"error">): Promise<void> {
    return this.#open.with(id, (session) => session.report(error));
  }

  async update(id: string, change: SessionChange): Promise<SessionInfo> {
    await this.#open.with(id, (session) => session.update(change));
    return this.info(id);
  }

  interrupt(id: string, options: InterruptOptions = {}): Promise<{ turnId?: string; commandId?: string }> {
    return this.#open.with(id, async (session) => {
      const interrupted = await session.interrupt(options);
      if (interrupted.turnId !== undefined || options.turnId !== undefined) return interrupted;
      const commandId = await session.interruptCommand();
      return commandId === undefined ? {} : { commandId };
    });
  }

  async terminate(id: string, options: { destroy?: boolean } = {}): Promise<void> {
    await this.#open.withToEnd(id, (session) => session.terminate(options), "attached");
    if (options.destroy) await forgetSecrets((await this.#open.row(id)).spec, this.#dataDir);
  }

  exec(id: string, command: RunCommand): Promise<StartedCommand> {
    return this.#open.with(id, (session) => session.exec(command));
  }

  resolvePermission: Engine["resolvePermission"] = (id, permissionId, reply) =>
    this.#open.with(id, (session) => session.reply(permissionId, { kind: "permission", ...reply }));

  resolveQuestion: Engine["resolveQuestion"] = (id, questionId, reply) =>
    this.#open.with(id, (session) => session.reply(questionId, { kind: "question", ...reply }));

  resolveTool: Engine["resolveTool"] = (id, requestId, reply) =>
    this.#open.with(id, (session) => session.reply(requestId, { kind: "tool", ...reply }));

  checkpoint(id: string, options: { comment?: string | undefined } = {}): Promise<CheckpointInfo> {
    return this.#open.with(id, (session) => session.checkpoint(options.comment));
  }

  async checkpoints(id: string, options: { limit?: number } = {}): Promise<CheckpointInfo[]> {
    const { shelf } = (await this.#open.row(id)).spec;
    return this.#deps.checkpoints(shelf).list({ sessionId: id, limit: options.limit });
  }

  async shelved(
    shelf: string | undefined,
    options: { limit?: number | undefined } = {},
  ): Promise<CheckpointInfo[]> {
    return this.#deps.checkpoints(shelf).list({ limit: options.limit });
  }

  restore(id: string, checkpoint: string): Promise<CheckpointInfo> {
    return this.#open.with(id, (session) => session.restore(checkpoint));
  }

  pause(id: string): Promise<void> {
    return this.#open.with(id, (session) => session.pause());
  }

  resume(id: string): Promise<void> {
    return this.#open.with(id, (session) => session.resume());
  }

  host(id: string, port: number): Promise<URL> {
    return this.#open.with(id, (session) => session.host(port));
  }

  files(id: string): Promise<SandboxFiles> {
    return this.#open.with(id, (session) => session.files());
  }

  stats(): EngineStats {
    const open = [...this.#open];
    return {
      ...this.#stats,
      sessionsLive: open.length,
      turnsRunning: open.filter((session) => session.hasTurn).length,
      processesRunning: open.filter((session) => session.hasProcess).length,
      starts: this.#deps.starts.stats,
      resting: this.#deps.resting.stats,
    };
  }

  /** Picks up what an earlier life left behind, and looks again from time to time. */
  async start(): Promise<void> {
    for (const id of await this.#open.halfDeleted()) {
      await this.#erase(id).catch((error: unknown) =>
        this.#deps.logger({
          level: "error",
          message: "a deleted session could not be removed",
          session: id,
          error: messageOf(error),
        }),
      );
    }
    await this.#eraseRetired().catch((error: unknown) => this.#onUnerased(error));
    await this.#removeHalfCopies().catch((error: unknown) =>
      this.#deps.logger({
        level: "error",
        message: "half a copy could not be removed",
        error: messageOf(error),
      }),
    );
    await this.#open.expectRecovery();
    this.recovered = this.#recover();
    this.recovered.catch((error: unknown) =>
      this.#deps.logger({
        level: "error",
        message: "what an earlier life left could not be picked up; it is tried again",
        error: messageOf(error),
      }),
    );
  }

  async #recover(): Promise<void> {
    const mayForget = !this.#draining;
    await this.#upkeep.begin();
    if (mayForget) await this.#retention.start();
  }

  async drain({ graceMs }: { graceMs: number }): Promise<void> {
    this.#draining = true;
    const deadline = performance.now() + graceMs;
    while ([...this.#open].some(isWorking) && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    // What is paused stays as it is.
    const awake = [...this.#open].filter((session) => !session.isPaused);
    await Promise.allSettled(awake.map((session) => session.sleep()));
    await this.close();
  }

  async close(): Promise<void> {
    this.#draining = true;
    this.#upkeep.end();
    await this.#retention.end();
    const isNeeded = [...this.#open].some((session) => session.isActive);
    await this.#open.close();
    await this.recovered.catch(() => {});
    // What fails is done by the next start.
    await this.#eraseRetired().catch((error: unknown) => this.#onUnerased(error));
    await this.#deps.tools.close();
    this.#deps.ourselves.close();
    if (!isNeeded) await this.#caretaker.end();
  }

  async #infoOf(row: SessionRow): Promise<SessionInfo> {
    // A session that rests may have been taken over by another process: then only the log knows.
    const held = await this.#open.held(row.id);
    // An open session does not hear of what is trimmed behind it.
    return held ? { ...held.info(), ...toOldest(row) } : toSessionInfo(row, await loadFold(this.log, row));
  }
}

/** A turn that waits for somebody may wait for ever; only one that works is worth waiting for. */
function isWorking(session: Session): boolean {
  return session.hasTurn && !session.isWaiting;
}

function parseCursor(cursor: string): number {
  const ordinal = Number(cursor);
  if (Number.isSafeInteger(ordinal) && ordinal > 0) return ordinal;
  throw new SluiceError("invalid_cursor", `"${cursor}" is not a cursor; use the "next" of the page before`);
}
