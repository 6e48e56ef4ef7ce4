import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import type { Told } from "../dialects/content/index.ts";
import {
  type AgentResponse,
  type ExecuteOptions,
  type RunOptions,
  toText,
  toTimeout,
} from "./agent-response.ts";
import type { Link } from "./backend.ts";
import type { SluiceListeners } from "./emitter.ts";
import { type EventsOptions, streamEvents, type StreamedEvent } from "./event-stream.ts";
import { Operation } from "./operation.ts";
import { type OutputResult, readOutput, type Snapshot, takeSnapshot } from "./output-files.ts";
import type { ResultOf, ResultSchema } from "./result-schema.ts";
import type { SessionStatus } from "./session-status.ts";
import { innerFolder } from "./settings.ts";
import { refuse, Tenant } from "./tenant.ts";
import { Work, type WorkSite } from "./work.ts";
import type { Activity } from "./workplace.ts";

/**
 * Runs a coding agent in a sandbox, in this process or on a server, and tells of all that it does. The session is in
 * the log either way, under the id that `getSession()` gives, for every other client of sluice.
 *
 * @example
 * const sluice = new Sluice().withAgent({ type: "claude" });
 * sluice.on("content", (event) => console.log(event.update.sessionUpdate));
 * const result = await sluice.run({ prompt: "Analyze the data and create a report" });
 * console.log(result.exitCode);
 * await sluice.kill();
 */
export class Sluice<T = unknown> extends Tenant {
  readonly #work = new Work({
    connect: () => this.connect(),
    enter: (link, from) => this.#enter(link, from),
    id: () => this.workplace.id,
    complete: (link, outcome) => this.#complete(link, outcome),
  });
  /** How `output/` was before the last run. */
  #before: Snapshot | undefined;
  #closed = new AbortController();
  /** Listeners of `replay()` keep the connection open. */
  #held: (() => void)[] = [];

  /**
   * Begins in a sandbox that exists: it is joined with the first run. To switch later, use `setSession()`.
   *
   * @example
   * const sluice = new Sluice().withSession("ses_0mwh…");
   */
  withSession(sandboxId: string): this {
    this.#work.refuseBusy();
    void this.workplace.name(toText("The sandbox's id", sandboxId));
    return this;
  }

  /**
   * The shape of `output/result.json`, which the agent is asked to write: zod, or JSON Schema.
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
   * Runs the agent with a prompt. A later run goes on with the same conversation. A run that fails resolves all the
   * same, with another `exitCode` than 0.
   *
   * @example
   * const result = await sluice.run({ prompt: "Fix the failing test", timeoutMs: 15 * 60 * 1000 });
   */
  async run(options: RunOptions): Promise<AgentResponse> {
    this.#work.refuseBusy();
    const { background = false, from, checkpointComment } = options;
    const prompt = toText("prompt", options.prompt, { mayBeEmpty: true });
    const timeoutMs = toTimeout(options.timeoutMs);
    if (from !== undefined) this.demandShelf("from");
    if (checkpointComment !== undefined) this.demandShelf("checkpointComment");
    if (from !== undefined && this.workplace.isGiven)
      throw refuse("from restores into a fresh sandbox, so it cannot be used with withSession()");
    const turn = {
      timeoutMs,
      ...(background ? { background } : {}),
      ...(checkpointComment === undefined ? {} : { checkpointComment }),
    };
    return this.#work.start(new Operation("run", { background }), from, (link, id) =>
      link.send(id, prompt, turn),
    );
  }

  /**
   * Runs a shell command in the sandbox, in its working directory.
   *
   * @example
   * const { exitCode, stdout } = await sluice.executeCommand("pytest", { timeoutMs: 10 * 60 * 1000 });
   */
  async executeCommand(command: string, options: ExecuteOptions = {}): Promise<AgentResponse> {
    this.#work.refuseBusy();
    const { background = false } = options;
    const timeoutMs = toTimeout(options.timeoutMs);
    const cwd = innerFolder(this.settings.directory);
    const request = {
      command: toText("The command", command),
      timeoutMs,
      ...(background ? { background } : {}),
      ...(cwd === undefined ? {} : { cwd }),
    };
    return this.#work.start(new Operation("command", { background }), undefined, (link, id) =>
      link.exec(id, request),
    );
  }

  /**
   * Ends the active run or command, also one that another instance has started in this session; the sandbox lives on,
   * and the next run continues the conversation. False where nothing was active, or where its provider has no way to
   * end it.
   *
   * @example
   * void sluice.run({ prompt: "Do a full migration plan", background: true });
   * await sluice.interrupt();
   * await sluice.run({ prompt: "Change direction: only auth migration." });
   */
  async interrupt(): Promise<boolean> {
    if (!this.#work.active && this.workplace.id !== undefined) await this.#look();
    const operation = this.#work.active;
    return operation ? this.use((link) => this.#work.interrupt(link, operation)) : false;
  }

  /**
   * The files of `output/` that the last run or command made or changed, and `result.json` as the schema reads it.
   *
   * @example
   * const output = await sluice.getOutputFiles(true);
   * saveLocalDir("./output", output.files);
   */
  async getOutputFiles(recursive = false): Promise<OutputResult<T>> {
    const { schema } = this.settings;
    return this.use(async (link) => {
      const id = await this.workplace.open(link);
      const output = await readOutput(link, id, { recursive, before: this.#before, schema });
      return output as OutputResult<T>;
    });
  }

  /**
   * Switches to another sandbox: what is active is interrupted first. It is joined with the next run; `status()` knows
   * at once whether something runs there.
   *
   * @example
   * await sluice.setSession("ses_0mwh…");
   */
  async setSession(sandboxId: string): Promise<void> {
    const id = toText("The sandbox's id", sandboxId);
    await this.stopWork();
    this.#release();
    await this.workplace.name(id);
    this.#before = undefined;
    await this.#look();
  }

  /**
   * What the sandbox and the agent are at this moment, as far as this instance has heard. Of a session that it was
   * given it has heard nothing before it is first asked for; then it listens.
   *
   * @example
   * if (sluice.status().agent === "running") await sluice.interrupt();
   */
  status(): SessionStatus {
    if (this.workplace.isGiven && !this.workplace.isJoined) void this.#look();
    const { id, sandbox, agent, active, hasRun } = this.workplace;
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
   * Ends all that runs and destroys the sandbox; the next run makes a new one. The log stays.
   *
   * @example
   * await sluice.kill();
   */
  async kill(): Promise<void> {
    const operation = this.#work.active;
    if (this.workplace.id !== undefined || operation)
      await this.use(async (link) => {
        await this.workplace.destroy(link);
        await operation?.ended.catch(() => {});
      });
    this.#before = undefined;
    this.#release();
    await this.disconnect();
  }

  /**
   * All that listeners were told and will be told, from any place of the log on, until the sandbox is killed.
   *
   * @example
   * for await (const event of sluice.events({ after: 0 })) {
   *   if (event.type === "content") console.log(event.sequence, event.event.update.sessionUpdate);
   * }
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<StreamedEvent, void, undefined> {
    const { after, signal: given } = options;
    const signal = AbortSignal.any([this.#closed.signal, ...(given ? [given] : [])]);
    await this.whenPlaced(signal);
    if (signal.aborted) return;
    const connection = this.connect();
    const link = await connection.enter();
    try {
      const session = await this.workplace.open(link);
      for await (const { sequence, told } of streamEvents(link, session, { after, signal }))
        for (const part of told) yield { sequence, ...part };
    } finally {
      connection.leave();
    }
  }

  /**
   * Gives a listener what it has missed, and from then on all that comes, until `close()` or `kill()`: each event once.
   *
   * @example
   * await sluice.replay("content", (event) => render(event));
   */
  async replay<K extends "content" | "lifecycle" | "stdout" | "stderr">(
    type: K,
    listener: (...args: SluiceListeners[K]) => void,
    options: Pick<EventsOptions, "after"> = {},
  ): Promise<this> {
    const attach = this.on.bind(this) as (type: K, listener: (...args: SluiceListeners[K]) => void) => this;
    if (this.workplace.id === undefined) return attach(type, listener);
    const connection = this.connect();
    const link = await connection.enter();
    this.#held.push(() => connection.leave());
    const session = await this.workplace.open(link);
    if (this.workplace.cursor === 0) return attach(type, listener);
    const done = new AbortController();
    const past = { after: options.after, signal: done.signal };
    for await (const { sequence, told } of streamEvents(link, session, past)) {
      for (const part of told)
        if (part.type === type)
          (listener as (value: unknown) => void)("event" in part ? part.event : part.chunk);
      // No turn of the loop lies between this and the listener's first event.
      if (sequence >= this.workplace.cursor) break;
    }
    attach(type, listener);
    done.abort();
    return this;
  }

  /**
   * Lets go of the session without ending it: what runs goes on, and another instance can join it by its id.
   *
   * @example
   * await sluice.close();
   */
  async close(): Promise<void> {
    this.#closed.abort();
    this.#closed = new AbortController();
    await this.workplace.rest();
    this.#release();
    this.#work.letGo(refuse("this instance was closed; the run goes on, and withSession() joins it again"));
    // Whoever still uses the connection has heard it by now.
    await new Promise((resolve) => setImmediate(resolve));
    await this.disconnect();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  protected hear(event: SluiceEvent, told: readonly Told[]): void {
    this.#work.see(event, told);
    for (const part of told) this.tell(part);
  }

  protected adopt(activity: Activity): void {
    this.#work.adopt(activity);
  }

  protected lose(error: unknown): void {
    this.#work.lose(error ?? ended(this.workplace.id));
  }

  protected async stopWork(): Promise<void> {
    if (this.#work.active && !(await this.interrupt())) this.#work.refuseBusy();
  }

  /** Learns what runs in the session; one that is not there has nothing that runs. */
  async #look(): Promise<void> {
    await this.use((link) => this.workplace.look(link)).catch(() => {});
  }

  #release(): void {
    for (const leave of this.#held.splice(0)) leave();
  }

  async #enter(link: Link, from: string | undefined): Promise<string> {
    const id = await this.enter(
      link,
      from === undefined ? undefined : await this.#findCheckpoint(link, from),
    );
    if (this.workplace.sandbox === "paused") await link.resume(id);
    this.#before = await takeSnapshot(link, id);
    return id;
  }

  async #findCheckpoint(link: Link, from: string): Promise<string> {
    if (from !== "latest") return from;
    const [newest] = await link.shelved(this.settings.shelf?.name, { limit: 1 });
    if (newest) return newest.id;
    throw new SluiceError(
      "checkpoint_not_found",
      "No checkpoints found in this storage; run without `from` first.",
    );
  }

  async #complete(
    link: Link,
    { kind, response, checkpointId }: Parameters<WorkSite["complete"]>[1],
  ): Promise<AgentResponse> {
    const { shelf } = this.settings;
    if (!shelf || kind !== "run" || response.exitCode !== 0) return response;
    const kept =
      checkpointId === undefined ? [] : await link.shelved(shelf.name, { limit: 50 }).catch(() => []);
    const checkpoint = kept.find(({ id }) => id === checkpointId);
    if (checkpoint) return { ...response, checkpoint };
    // The work is done, and it is not lost with its checkpoint; but somebody counts on that.
    process.emitWarning(`The run in ${response.sandboxId} went well, but no checkpoint of it was kept.`, {
      code: "SLUICE_NO_CHECKPOINT",
      detail: "The storage may be full or closed to writing, or the sandbox was made without withStorage().",
    });
    return response;
  }
}

function ended(session: string | undefined): SluiceError {
  return new SluiceError("session_ended", `The sandbox ${session ?? ""} is gone; its session has ended.`);
}
