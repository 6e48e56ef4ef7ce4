import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import { initialContent, projectContent, type Told } from "../dialects/content/index.ts";
import { Builder } from "./builder.ts";
import {
  type AgentResponse,
  type CheckpointInfo,
  DEFAULT_TIMEOUT_MS,
  type ExecuteOptions,
  type RunOptions,
} from "./agent-response.ts";
import { codeOf, type Link } from "./backend.ts";
import { Connection } from "./connection.ts";
import { createEmbeddedBackend } from "./embedded.ts";
import type { SluiceListeners } from "./emitter.ts";
import { type FileMap, toInnerPath } from "./file-map.ts";
import { Operation } from "./operation.ts";
import { type OutputResult, readOutput, type Snapshot, takeSnapshot } from "./output-files.ts";
import { createRemoteBackend } from "./remote.ts";
import type { ResultOf, ResultSchema } from "./result-schema.ts";
import type { SessionStatus } from "./session-status.ts";
import { innerFolder } from "./settings.ts";
import type { Shelf } from "./storage.ts";
import { Workplace, writeFiles } from "./workplace.ts";

/** One event of `events()`: what a listener would be given, with its place in the log. */
export type StreamedEvent = { readonly sequence: number } & Told;

/** What `events()` and `replay()` take. */
export interface EventsOptions {
  /** The sequence to begin behind; 0, the beginning, unless said otherwise. */
  after?: number;
  /** Ends the iteration quietly. */
  signal?: AbortSignal;
}

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
export class Sluice<T = unknown> extends Builder {
  readonly #workplace: Workplace;
  #connection: Connection | undefined;
  /** What is active: nothing else may start. */
  #operation: Operation | undefined;
  /** What still has to hear something; how an agent's process ended is said behind the end of its run. */
  readonly #listening = new Set<Operation>();
  #before: Snapshot | undefined;
  #closed = new AbortController();
  #placed: (() => void)[] = [];

  constructor() {
    super();
    this.#workplace = new Workplace(this.settings, {
      onEvent: (event, told) => this.#see(event, told),
      onLifecycle: (event) => this.tell({ type: "lifecycle", event }),
      onEnd: (error) => {
        // One that was not accepted yet is about to begin elsewhere.
        for (const operation of this.#listening)
          if (operation.id !== undefined) operation.abandon(error ?? ended(this.#workplace.id));
      },
    });
  }

  /**
   * Begins in a sandbox that exists: it is joined with the first run. To switch later, use `setSession()`.
   *
   * @example
   * const sluice = new Sluice().withSession("ses_0mwh…");
   */
  withSession(sandboxId: string): this {
    this.#refuseBusy();
    void this.#workplace.name(sandboxId);
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
    this.#refuseBusy();
    const { prompt, timeoutMs = DEFAULT_TIMEOUT_MS, background = false, from, checkpointComment } = options;
    if (from !== undefined) this.#demandShelf("from");
    if (checkpointComment !== undefined) this.#demandShelf("checkpointComment");
    if (from !== undefined && this.#workplace.isGiven)
      throw refuse("from restores into a fresh sandbox, so it cannot be used with withSession()");
    const turn = {
      timeoutMs,
      ...(background ? { background } : {}),
      ...(checkpointComment === undefined ? {} : { checkpointComment }),
    };
    return this.#operate(new Operation("run", { background }), from, (link, id) =>
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
    this.#refuseBusy();
    const { timeoutMs = DEFAULT_TIMEOUT_MS, background = false } = options;
    const cwd = innerFolder(this.settings.directory);
    const request = {
      command,
      timeoutMs,
      ...(background ? { background } : {}),
      ...(cwd === undefined ? {} : { cwd }),
    };
    return this.#operate(new Operation("command", { background }), undefined, (link, id) =>
      link.exec(id, request),
    );
  }

  /**
   * Ends the active run or command; the sandbox lives on, and the next run continues the conversation. False where
   * nothing was active, or where its provider has no way to end it.
   *
   * @example
   * void sluice.run({ prompt: "Do a full migration plan", background: true });
   * await sluice.interrupt();
   * await sluice.run({ prompt: "Change direction: only auth migration." });
   */
  async interrupt(): Promise<boolean> {
    const operation = this.#operation;
    if (!operation) return false;
    return this.#use(async (link) => {
      // One that is only about to begin is waited for: what was asked for should be in the conversation.
      await operation.started;
      const { id } = this.#workplace;
      if (operation.isOver || id === undefined) return false;
      const did = await link.interrupt(id).catch((error: unknown) => {
        if (codeOf(error) === "capability_missing") return false;
        throw error;
      });
      if (did) await operation.ended.catch(() => {});
      return did;
    });
  }

  /**
   * Uploads files to `/home/user/workspace/context/`, at once.
   *
   * @example
   * await sluice.uploadContext({ "spec.json": JSON.stringify({ version: 1 }) });
   */
  async uploadContext(files: FileMap): Promise<void> {
    await this.#upload("context", files);
  }

  /**
   * Uploads files to `/home/user/workspace/`, at once; folders are made as they are needed.
   *
   * @example
   * await sluice.uploadFiles({ "scripts/setup.sh": "#!/bin/bash\necho hello" });
   */
  async uploadFiles(files: FileMap): Promise<void> {
    await this.#upload("", files);
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
    return this.#use(async (link) => {
      const id = await this.#workplace.open(link);
      const output = await readOutput(link, id, { recursive, before: this.#before, schema });
      return output as OutputResult<T>;
    });
  }

  /**
   * The sandbox's id, which is the session's, or null where there is none.
   *
   * @example
   * const sandboxId = sluice.getSession();
   */
  getSession(): string | null {
    return this.#workplace.id ?? null;
  }

  /**
   * Switches to another sandbox: what is active is interrupted first. It is joined with the next run.
   *
   * @example
   * await sluice.setSession("ses_0mwh…");
   */
  async setSession(sandboxId: string): Promise<void> {
    await this.#stopWork();
    await this.#workplace.name(sandboxId);
    this.#before = undefined;
  }

  /**
   * What the sandbox and the agent are at this moment, without asking anybody.
   *
   * @example
   * if (sluice.status().agent === "running") await sluice.interrupt();
   */
  status(): SessionStatus {
    const { id, sandbox, agent, active, hasRun } = this.#workplace;
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
   * Suspends the sandbox with all that is in it; what is active is interrupted first.
   *
   * @example
   * await sluice.pause();
   * await sluice.resume();
   */
  async pause(): Promise<void> {
    await this.#stopWork();
    await this.#control((link, id) => link.pause(id));
  }

  /**
   * Lets a suspended sandbox go on.
   *
   * @example
   * await sluice.resume();
   */
  async resume(): Promise<void> {
    await this.#control((link, id) => link.resume(id));
  }

  /**
   * Ends all that runs and destroys the sandbox; the next run makes a new one. The log stays.
   *
   * @example
   * await sluice.kill();
   */
  async kill(): Promise<void> {
    const operation = this.#operation;
    if (this.#workplace.id !== undefined || operation)
      await this.#use(async (link) => {
        await this.#workplace.destroy(link);
        await operation?.ended.catch(() => {});
      });
    this.#before = undefined;
    await this.#connection?.close();
  }

  /**
   * Keeps the files of the sandbox as they are now, and the agent's memory with them. Needs `withStorage()`.
   *
   * @example
   * const { id } = await sluice.checkpoint({ comment: "before refactor" });
   */
  async checkpoint(options: { comment?: string } = {}): Promise<CheckpointInfo> {
    this.#demandShelf("checkpoint()");
    return this.#control((link, id) => link.checkpoint(id, options));
  }

  /**
   * The checkpoints of the storage, newest first. Needs `withStorage()`.
   *
   * @example
   * const [newest] = await sluice.listCheckpoints({ limit: 10 });
   */
  async listCheckpoints(options: { limit?: number } = {}): Promise<CheckpointInfo[]> {
    const shelf = this.#demandShelf("listCheckpoints()");
    const { limit = 100 } = options;
    return this.#use((link) => link.shelved(shelf.name, { limit: Math.min(limit, 500) }));
  }

  /**
   * Where a port that a program in the sandbox listens on can be reached.
   *
   * @example
   * await sluice.executeCommand("npm run dev -- --port 8000", { background: true });
   * console.log(await sluice.getHost(8000));
   */
  async getHost(port: number): Promise<string> {
    return this.#use(async (link) => link.host(await this.#workplace.open(link), port));
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
    const { after = 0, signal: given } = options;
    const signal = AbortSignal.any([this.#closed.signal, ...(given ? [given] : [])]);
    await this.#whenPlaced(signal);
    if (signal.aborted) return;
    const connection = this.#connect();
    const link = await connection.enter();
    try {
      const session = await this.#workplace.open(link);
      // What was open at that place is known from what came before it.
      let state = initialContent();
      for await (const event of link.follow(session, { after: 0, signal })) {
        const projected = projectContent(state, event);
        state = projected.state;
        if (event.sequence <= after) continue;
        for (const told of projected.told) yield { sequence: event.sequence, ...told };
      }
    } finally {
      connection.leave();
    }
  }

  /**
   * Gives a listener what it has missed, and from then on all that comes: each event once.
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
    if (this.#workplace.id === undefined) return attach(type, listener);
    return this.#use(async (link) => {
      const session = await this.#workplace.open(link);
      const done = new AbortController();
      let state = initialContent();
      if (this.#workplace.cursor === 0) return attach(type, listener);
      for await (const event of link.follow(session, { after: 0, signal: done.signal })) {
        const projected = projectContent(state, event);
        state = projected.state;
        const told = event.sequence > (options.after ?? 0) ? projected.told : [];
        for (const part of told)
          if (part.type === type)
            (listener as (value: unknown) => void)("event" in part ? part.event : part.chunk);
        // No turn of the loop lies between this and the listener's first event.
        if (event.sequence >= this.#workplace.cursor) break;
      }
      attach(type, listener);
      done.abort();
      return this;
    });
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
    await this.#workplace.rest();
    const operation = this.#operation;
    this.#operation = undefined;
    operation?.abandon(refuse("this instance was closed; the run goes on, and withSession() joins it again"));
    // Whoever still uses the connection has heard it by now.
    await new Promise((resolve) => setImmediate(resolve));
    await this.#connection?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #operate(
    operation: Operation,
    from: string | undefined,
    start: (link: Link, id: string) => Promise<string>,
  ): Promise<AgentResponse> {
    // Before anything is awaited: a second call of the same tick finds it here.
    this.#operation = operation;
    this.#listening.add(operation);
    const forget = (): void => void this.#listening.delete(operation);
    operation.ended.then(forget, forget);
    const connection = this.#connect();
    try {
      const link = await connection.enter();
      const done = this.#perform(operation, link, from, start);
      done.catch(() => {}).finally(() => connection.leave());
      if (!operation.background) return await done;
      await Promise.race([operation.started, done]);
      if (operation.id === undefined) return await done;
      const stdout = `Background process started with ID ${operation.id}`;
      return { sandboxId: this.#workplace.id ?? "", exitCode: 0, stdout, stderr: "" };
    } catch (error) {
      operation.abandon(error);
      throw error;
    } finally {
      if (operation.isOver && this.#operation === operation) this.#operation = undefined;
    }
  }

  async #perform(
    operation: Operation,
    link: Link,
    from: string | undefined,
    start: (link: Link, id: string) => Promise<string>,
  ): Promise<AgentResponse> {
    const sandboxId = await this.#enterPlace(link, from);
    this.#before = await takeSnapshot(link, sandboxId);
    operation.accept(await start(link, sandboxId));
    this.#release(operation);
    const { checkpointId, ...outcome } = await operation.ended;
    const shelf = this.settings.shelf;
    if (checkpointId === undefined || !shelf || outcome.exitCode !== 0) return { sandboxId, ...outcome };
    const kept = await link.shelved(shelf.name, { limit: 50 }).catch(() => []);
    const checkpoint = kept.find(({ id }) => id === checkpointId);
    return { sandboxId, ...outcome, ...(checkpoint ? { checkpoint } : {}) };
  }

  async #enterPlace(link: Link, from: string | undefined): Promise<string> {
    if (from !== undefined) {
      const id = await this.#workplace.branch(link, await this.#findCheckpoint(link, from));
      this.#announce();
      return id;
    }
    const id = await this.#workplace.open(link);
    this.#announce();
    if (this.#workplace.sandbox === "paused") await link.resume(id);
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

  #see(event: SluiceEvent, told: readonly Told[]): void {
    for (const operation of this.#listening) operation.see(event, told);
    // A listener that hears of the end may start the next run.
    if (this.#operation) this.#release(this.#operation);
    for (const part of told) this.tell(part);
  }

  #release(operation: Operation): void {
    if (operation.isOver && this.#operation === operation) this.#operation = undefined;
  }

  async #upload(folder: string, files: FileMap): Promise<void> {
    for (const path of Object.keys(files)) toInnerPath(path);
    await this.#use(async (link) => {
      const id = await this.#workplace.open(link);
      this.#announce();
      await writeFiles(link, id, folder, files);
    });
  }

  async #control<R>(task: (link: Link, id: string) => Promise<R>): Promise<R> {
    if (this.#workplace.id === undefined)
      throw refuse("there is no sandbox yet; the first run() or executeCommand() makes one");
    return this.#use(async (link) => {
      const id = await this.#workplace.open(link);
      const result = await task(link, id);
      await this.#workplace.settle(link);
      return result;
    });
  }

  async #stopWork(): Promise<void> {
    if (this.#operation && !(await this.interrupt())) this.#refuseBusy();
  }

  async #whenPlaced(signal: AbortSignal): Promise<void> {
    if (this.#workplace.id !== undefined || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#placed.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  #announce(): void {
    for (const wake of this.#placed.splice(0)) wake();
  }

  #use<R>(task: (link: Link) => Promise<R>): Promise<R> {
    return this.#connect().use(task);
  }

  #connect(): Connection {
    const { server, data, sandbox, shelf } = this.settings;
    this.#connection ??= new Connection(
      server ? createRemoteBackend({ ...server, sandbox }) : createEmbeddedBackend({ data, sandbox, shelf }),
      { onClosing: () => this.#workplace.rest() },
    );
    return this.#connection;
  }

  /** What comes next goes another way; whoever is on the old one finishes there. */
  protected reconnect(): this {
    const old = this.#connection;
    this.#connection = undefined;
    void old?.close();
    return this;
  }

  #refuseBusy(): void {
    if (!this.#operation) return;
    const what = this.#operation.kind === "run" ? "Agent is already running" : "A command is already running";
    throw new SluiceError(
      "session_busy",
      `${what}. Call interrupt() first, or wait for the active operation to finish.`,
    );
  }

  #demandShelf(what: string): Shelf {
    const { shelf } = this.settings;
    if (shelf) return shelf;
    throw refuse(`${what} needs a storage for checkpoints; configure one with withStorage()`);
  }
}

function refuse(detail: string): SluiceError {
  return new SluiceError("invalid_request", detail);
}

function ended(session: string | undefined): SluiceError {
  return new SluiceError("session_ended", `The sandbox ${session ?? ""} is gone; its session has ended.`);
}
