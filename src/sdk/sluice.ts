import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import type { Emitted } from "../dialects/sdk/index.ts";
import {
  type AgentResponse,
  type ExecuteOptions,
  refuse,
  type RunOptions,
  type SessionStatus,
  toText,
  toTimeout,
} from "./agent-response.ts";
import type { Link } from "./backend/port.ts";
import {
  type OutputResult,
  type OutputStamps,
  readOutput,
  readStamps,
  type ResultOf,
  type ResultSchema,
} from "./files/output.ts";
import { innerFolder } from "./files/workspace.ts";
import { type Activity, Job } from "./job.ts";
import { JobRunner } from "./job-runner.ts";
import { SessionControls } from "./session-controls.ts";
import { addCheckpoint, findCheckpoint } from "./storage.ts";

/**
 * Runs a coding agent in a sandbox, in this process or on a server, and emits its events. Other clients of sluice find
 * the session in the log by the id from `getSession()`.
 *
 * @example
 * const sluice = new Sluice().withAgent({ type: "claude" });
 * sluice.on("content", (event) => console.log(event.update.sessionUpdate));
 * const result = await sluice.run({ prompt: "Analyze the data and create a report" });
 * console.log(result.exitCode);
 * await sluice.kill();
 */
export class Sluice<T = unknown> extends SessionControls {
  readonly #jobs = new JobRunner({
    connect: () => this.connect(),
    enter: (link, from) => this.#enter(link, from),
    sessionId: () => this.session.id,
    complete: (link, outcome) => addCheckpoint(link, this.settings.checkpointStore, outcome),
  });
  /** The files of `output/` before the last run or command. */
  #before: OutputStamps | undefined;

  /**
   * Uses an existing sandbox, which the first run joins. `setSession()` switches later.
   *
   * @example
   * const sluice = new Sluice().withSession("ses_0mwh…");
   */
  withSession(sandboxId: string): this {
    this.#jobs.refuseBusy();
    void this.session.select(toText("The sandbox's id", sandboxId));
    return this;
  }

  /**
   * The schema of `output/result.json`, which the agent is asked to write: zod or JSON Schema.
   *
   * @example
   * const sluice = new Sluice().withSchema(z.object({ summary: z.string(), score: z.number() }));
   * const { data } = await sluice.getOutputFiles(); // { summary: string; score: number } | null
   */
  withSchema<S extends ResultSchema>(schema: S): Sluice<ResultOf<S>> {
    this.settings.schema = schema;
    return this as unknown as Sluice<ResultOf<S>>;
  }

  /**
   * Runs the agent with a prompt. A later run continues the conversation. A failed run resolves too, with an
   * `exitCode` other than 0.
   *
   * @example
   * const result = await sluice.run({ prompt: "Fix the failing test", timeoutMs: 15 * 60 * 1000 });
   */
  async run(options: RunOptions): Promise<AgentResponse> {
    this.#jobs.refuseBusy();
    const { background = false, from, checkpointComment } = options;
    const prompt = toText("prompt", options.prompt, { mayBeEmpty: true });
    const timeoutMs = toTimeout(options.timeoutMs);
    if (from !== undefined) this.demandStore("from");
    if (checkpointComment !== undefined) this.demandStore("checkpointComment");
    if (from !== undefined && this.session.isGiven)
      throw refuse("from restores into a fresh sandbox, so it cannot be used with withSession()");
    const turn = {
      timeoutMs,
      ...(background ? { background } : {}),
      ...(checkpointComment === undefined ? {} : { checkpointComment }),
    };
    return this.#jobs.start(new Job("run", { background }), from, (link, id) => link.send(id, prompt, turn));
  }

  /**
   * Runs a shell command in the sandbox, in its working directory.
   *
   * @example
   * const { exitCode, stdout } = await sluice.executeCommand("pytest", { timeoutMs: 10 * 60 * 1000 });
   */
  async executeCommand(command: string, options: ExecuteOptions = {}): Promise<AgentResponse> {
    this.#jobs.refuseBusy();
    const { background = false } = options;
    const timeoutMs = toTimeout(options.timeoutMs);
    const cwd = innerFolder(this.settings.directory);
    const request = {
      command: toText("The command", command),
      timeoutMs,
      ...(background ? { background } : {}),
      ...(cwd === undefined ? {} : { cwd }),
    };
    return this.#jobs.start(new Job("command", { background }), undefined, (link, id) =>
      link.exec(id, request),
    );
  }

  /**
   * Ends the active run or command, also of another instance in this session. The sandbox stays, and the next run
   * continues the conversation. Returns false if nothing was active, or if the provider cannot interrupt it.
   *
   * @example
   * void sluice.run({ prompt: "Do a full migration plan", background: true });
   * await sluice.interrupt();
   * await sluice.run({ prompt: "Change direction: only auth migration." });
   */
  async interrupt(): Promise<boolean> {
    if (!this.#jobs.active && this.session.id !== undefined) await this.#watch();
    const job = this.#jobs.active;
    return job ? this.use((link) => this.#jobs.interrupt(link, job)) : false;
  }

  /**
   * The files of `output/` that the last run or command created or changed, and `result.json` parsed by the schema.
   *
   * @example
   * const output = await sluice.getOutputFiles(true);
   * saveLocalDir("./output", output.files);
   */
  async getOutputFiles(recursive = false): Promise<OutputResult<T>> {
    const { schema } = this.settings;
    return this.use(async (link) => {
      const id = await this.session.open(link);
      const output = await readOutput(link, id, { recursive, before: this.#before, schema });
      return output as OutputResult<T>;
    });
  }

  /**
   * Interrupts the active run or command and switches to another sandbox. Afterwards `status()` shows whether a run or
   * command is active there.
   *
   * @example
   * await sluice.setSession("ses_0mwh…");
   */
  async setSession(sandboxId: string): Promise<void> {
    const id = toText("The sandbox's id", sandboxId);
    await this.stopWork();
    this.releaseListeners();
    await this.session.select(id);
    this.#before = undefined;
    await this.#watch();
  }

  /**
   * The last known state of the sandbox and the agent. The first call after `withSession()` joins the session.
   *
   * @example
   * if (sluice.status().agent === "running") await sluice.interrupt();
   */
  status(): SessionStatus {
    if (this.session.isGiven && !this.session.isJoined) void this.#watch();
    const { id, sandbox, agent, active, hasRun } = this.session;
    return {
      sandboxId: id ?? null,
      sandbox,
      agent,
      activeProcessId: active ?? null,
      hasRun,
      timestamp: new Date().toISOString(),
    };
  }

  /**
   * Ends the active run or command and destroys the sandbox. The next run creates a new one. The log stays.
   *
   * @example
   * await sluice.kill();
   */
  async kill(): Promise<void> {
    const job = this.#jobs.active;
    if (this.session.id !== undefined || job)
      await this.use(async (link) => {
        await this.session.destroy(link);
        await job?.ended.catch(() => {});
      });
    this.#before = undefined;
    this.releaseListeners();
    await this.disconnect();
  }

  /**
   * Disconnects from the session: a run continues, and another instance can join it by its id.
   *
   * @example
   * await sluice.close();
   */
  async close(): Promise<void> {
    this.endIterations();
    await this.session.stopReading();
    this.releaseListeners();
    this.#jobs.letGo(refuse("this instance was closed; the run continues, and withSession() joins it again"));
    // The calls that were abandoned above leave the connection first.
    await new Promise((resolve) => setImmediate(resolve));
    await this.disconnect();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  protected observe(event: SluiceEvent, emitted: readonly Emitted[]): void {
    this.#jobs.see(event, emitted);
    for (const part of emitted) this.report(part);
  }

  protected adopt(activity: Activity): void {
    this.#jobs.adopt(activity);
  }

  protected lose(error: unknown): void {
    this.#jobs.lose(error ?? sessionEnded(this.session.id));
  }

  protected async stopWork(): Promise<void> {
    if (this.#jobs.active && !(await this.interrupt())) this.#jobs.refuseBusy();
  }

  /** Joins the session, if it exists. */
  async #watch(): Promise<void> {
    await this.use((link) => this.session.watch(link)).catch(() => {});
  }

  async #enter(link: Link, from: string | undefined): Promise<string> {
    const { checkpointStore } = this.settings;
    const checkpoint = from === undefined ? undefined : await findCheckpoint(link, checkpointStore, from);
    const id = await this.enter(link, checkpoint);
    if (this.session.sandbox === "paused") await link.resume(id);
    this.#before = await readStamps(link, id);
    return id;
  }
}

function sessionEnded(session: string | undefined): SluiceError {
  return new SluiceError("session_ended", `The sandbox ${session ?? ""} is gone; its session has ended.`);
}
