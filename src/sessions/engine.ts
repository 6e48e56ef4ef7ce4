import { join } from "node:path";
import { defined } from "../contract/own-keys.ts";
import { type SessionInfo, SluiceError } from "../contract/index.ts";
import { coverageOf } from "../harness/coverage.ts";
import type { Harness } from "../harness/port.ts";
import { findHarness, harnesses as builtIn } from "../harness/registry.ts";
import type { EventLog } from "../log/port.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import { defaultProviders } from "../sandbox/choose.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { PINNED } from "../sandbox/host/files/paths.ts";
import { Caretaker } from "./upkeep/caretaker.ts";
import type { SessionChange } from "./fold/change.ts";
import type { SessionDeps } from "./deps.ts";
import { createSessionDeps, type EngineOptions } from "./options.ts";
import { messageOf } from "./failure.ts";
import { Creation } from "./lifecycle/creation.ts";
import { OpenSessions } from "./lifecycle/open-sessions.ts";
import { Recovery } from "./lifecycle/recovery.ts";
import { Removal } from "./lifecycle/removal.ts";
import { SessionList } from "./lifecycle/session-list.ts";
import type {
  AcceptedInput,
  AgentInfo,
  CheckpointPage,
  Engine,
  EngineStats,
  InterruptOptions,
  KeyOptions,
  SessionInput,
} from "./port.ts";
import { forgetSecrets } from "./secrets/kept.ts";
import { Retention } from "./upkeep/retention.ts";
import { EngineCounters } from "./stats.ts";
import { Upkeep } from "./upkeep/upkeep.ts";

/** Starts the engine. It resolves after the recovery of running sessions, unless `recoversBeside` is set. */
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
  readonly #onCommit: NonNullable<EngineOptions["onCommit"]>;
  readonly #open: OpenSessions;
  readonly #recovery: Recovery;
  readonly #list: SessionList;
  readonly #creation: Creation;
  readonly #upkeep: Upkeep;
  readonly #retention: Retention;
  readonly #removal: Removal;
  readonly #caretaker: Caretaker;
  /** Settles when this engine has taken over the sessions of an earlier server. */
  recovered: Promise<void> = Promise.resolve();
  #draining: boolean;
  readonly #counters = new EngineCounters();

  constructor(options: EngineOptions, providers: readonly SandboxProvider[]) {
    this.log = options.log;
    this.#harnesses = options.harnesses ?? builtIn;
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
        this.#counters.appended(drafts);
      },
      onAppendFailed: () => this.#counters.appendFailed(),
    });
    this.#open = new OpenSessions(this.#deps);
    this.#recovery = new Recovery(this.#deps, this.#open);
    this.#list = new SessionList(options.log, this.#open, this.#recovery);
    this.#removal = new Removal(this.#deps, this.#open);
    this.#creation = new Creation({
      deps: this.#deps,
      dataDir: options.dataDir,
      harnesses: this.#harnesses,
      list: this.#list,
      checkpoint: async (session) => (await this.checkpoint(session, { comment: "fork" })).id,
      latest: async (session) => (await this.checkpoints(session, { limit: 1 }))[0]?.id,
      restore: (session, checkpoint) => this.restore(session, checkpoint),
      remove: (session) => this.remove(session),
      onCreated: ({ id, spec }) => {
        this.#onCommit(id, []);
        if (spec.ttl !== undefined) this.#retention.begin();
      },
    });
    this.#upkeep = new Upkeep(this.#deps, providers, this.#recovery);
    this.#retention = new Retention(options.retention ?? {}, {
      log: options.log,
      logger: this.#deps.logger,
      roundMs: this.#deps.limits.retentionMs,
      remove: ({ id, head }) => this.#removal.remove(id, { restingAt: head }),
    });
  }

  defaultSandbox: Engine["defaultSandbox"] = () => this.#deps.defaultSandbox();

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

  create: Engine["create"] = (id, spec, options = {}) => this.#creation.create(id, spec, options);

  info: Engine["info"] = (id) => this.#list.info(id);

  inbox: Engine["inbox"] = (id) => this.#list.inbox(id);

  inputs: Engine["inputs"] = (id) => this.#list.inputs(id);

  changeQueue: Engine["changeQueue"] = (id, change, options) =>
    this.#open.with(id, (session) => session.queue.change(change, options));

  outline: Engine["outline"] = (id, page) => this.#list.outline(id, page);

  at: Engine["at"] = (id, sequence) => this.#list.at(id, sequence);

  entry: Engine["entry"] = (id) => this.#list.entry(id);

  spec: Engine["spec"] = (id) => this.#list.spec(id);

  list: Engine["list"] = (page) => this.#list.page(page);

  remove: Engine["remove"] = (id) => this.#removal.remove(id);

  async send(id: string, { via, key, by, ...message }: SessionInput): Promise<AcceptedInput> {
    const options = { via, by, ...defined({ key }) };
    const { after, accepted, duplicate } = await this.submit(id, [{ kind: "message", ...message }], options);
    const { inputId = "", turnId = "" } = accepted[0] ?? {};
    return { inputId, turnId, after, duplicate };
  }

  submit: Engine["submit"] = (id, submissions, options) =>
    this.#open.with(id, (session) => session.submit(submissions, options));

  report: Engine["report"] = (id, error) => this.#open.with(id, (session) => session.report(error));

  async update(id: string, change: SessionChange, { key }: { key?: string } = {}): Promise<SessionInfo> {
    await this.#open.with(id, (session) => session.update(change, key));
    return this.info(id);
  }

  interrupt(id: string, options: InterruptOptions = {}): Promise<{ turnId?: string; commandId?: string }> {
    return this.#open.with(id, async (session) => {
      const interrupted = await session.interrupt(options);
      if (interrupted.turnId !== undefined || options.turnId !== undefined) return interrupted;
      return defined({ commandId: await session.interruptCommand() });
    });
  }

  async terminate(id: string, options: { destroy?: boolean } = {}): Promise<void> {
    await this.#open.withToEnd(id, (session) => session.terminate(options), "attached");
    if (options.destroy) await forgetSecrets((await this.#open.row(id)).spec, this.#deps.kept);
  }

  exec: Engine["exec"] = (id, command, options) =>
    this.#open.with(id, (session) => session.workspace.exec(command, options));

  resolvePermission: Engine["resolvePermission"] = (id, permissionId, reply, options) =>
    this.#open.with(id, (session) => session.reply(permissionId, { kind: "permission", ...reply }, options));

  resolveQuestion: Engine["resolveQuestion"] = (id, questionId, reply, options) =>
    this.#open.with(id, (session) => session.reply(questionId, { kind: "question", ...reply }, options));

  resolveTool: Engine["resolveTool"] = (id, requestId, reply, options) =>
    this.#open.with(id, (session) => session.reply(requestId, { kind: "tool", ...reply }, options));

  checkpoint: Engine["checkpoint"] = (id, { comment, ...options } = {}) =>
    this.#open.with(id, (session) => session.workspace.checkpoint(comment, options));

  async checkpoints(id: string, page: CheckpointPage = {}): Promise<CheckpointInfo[]> {
    const { shelf } = (await this.#open.row(id)).spec;
    return this.#deps.checkpoints(shelf).list({ ...page, sessionId: id });
  }

  findCheckpoint: Engine["findCheckpoint"] = async (id, checkpoint) => {
    const { shelf } = (await this.#open.row(id)).spec;
    return this.#deps.checkpoints(shelf).get(checkpoint, { sessionId: id });
  };

  checkpointContents: Engine["checkpointContents"] = async (id, checkpoint) => {
    const { shelf } = (await this.#open.row(id)).spec;
    const found = await this.#deps.checkpoints(shelf).contents(checkpoint, { sessionId: id });
    if (found) return found;
    throw new SluiceError("checkpoint_not_found", `there is no checkpoint ${checkpoint}; list them first`);
  };

  shelved: Engine["shelved"] = async (shelf, page = {}) => this.#deps.checkpoints(shelf).list(page);

  restore: Engine["restore"] = (id, checkpoint, options) =>
    this.#open.with(id, (session) => session.workspace.restore(checkpoint, options));

  async move(id: string, sandbox: string, options?: KeyOptions): Promise<SessionInfo> {
    await this.#open.with(id, (session) => session.workspace.move(sandbox, options));
    return this.info(id);
  }

  pause: Engine["pause"] = (id) => this.#open.with(id, (session) => session.workspace.pause());

  resume: Engine["resume"] = (id) => this.#open.with(id, (session) => session.workspace.resume());

  host: Engine["host"] = (id, port) => this.#open.with(id, (session) => session.workspace.host(port));

  files: Engine["files"] = (id, options) =>
    this.#open.with(id, (session) => session.workspace.files(options));

  usage: Engine["usage"] = (filter) => this.log.usage.list(filter);

  stats(): EngineStats {
    return this.#counters.stats([...this.#open], this.#deps);
  }

  /** Finishes the work of an earlier server, and starts the upkeep. */
  async start(): Promise<void> {
    const complain = (message: string) => (error: unknown) =>
      this.#deps.logger({ level: "error", message, error: messageOf(error) });
    await this.#removal.finish();
    await this.#creation.removeUnfinished().catch(complain("an incomplete fork could not be removed"));
    await this.#recovery.expect();
    this.recovered = this.#recover();
    this.recovered.catch(
      complain("the sessions of an earlier server could not be picked up; it is tried again"),
    );
  }

  async #recover(): Promise<void> {
    // A caretaker drains from its start, and removes nothing.
    const isCaretaker = this.#draining;
    await this.#upkeep.begin();
    if (!isCaretaker) await this.#retention.start();
  }

  async drain({ graceMs }: { graceMs: number }): Promise<void> {
    this.#draining = true;
    const deadline = performance.now() + graceMs;
    while ([...this.#open].some((session) => session.isWorking) && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    // A paused session stays paused.
    const awake = [...this.#open].filter((session) => !session.isPaused);
    await Promise.allSettled(
      awake.map(async (session) => {
        // The next owner is another machine, which cannot reach the agent.
        if (this.#deps.lease.isShared && session.hasTurn) await session.interrupt({ stop: true });
        await session.sleep();
      }),
    );
    await this.close();
  }

  async close(): Promise<void> {
    this.#draining = true;
    this.#upkeep.end();
    await this.#retention.end();
    const isNeeded = [...this.#open].some((session) => session.isActive);
    await this.#open.close();
    await this.recovered.catch(() => {});
    await this.#removal.eraseRetired();
    await this.#deps.tools.close();
    this.#deps.lease.release();
    if (!isNeeded) await this.#caretaker.end();
  }
}
