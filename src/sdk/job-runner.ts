import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import type { Emitted } from "../dialects/sdk/index.ts";
import type { AgentResponse } from "./agent-response.ts";
import type { Connection } from "./backend/connection.ts";
import { codeOf, type Link } from "./backend/port.ts";
import { type Activity, Job } from "./job.ts";

/** The part of an instance that its jobs use. */
export interface JobContext {
  connect(): Connection;
  /** Joins or creates the session; with the files of a checkpoint, if one is given. */
  enter(link: Link, from: string | undefined): Promise<string>;
  sessionId(): string | undefined;
  /** Adds the checkpoint of a successful run to its response. */
  complete(
    link: Link,
    outcome: { kind: Job["kind"]; response: AgentResponse; checkpointId: string | undefined },
  ): Promise<AgentResponse>;
}

/** The one active run or command of an instance, and those that still wait for their exit code. */
export class JobRunner {
  readonly #context: JobContext;
  #active: Job | undefined;
  /** The activity of a session that the active job joined. It becomes the active one where that job is refused. */
  #joined: Job | undefined;
  /** Jobs that still need events: a process exits after its run has ended. */
  readonly #listening = new Set<Job>();

  constructor(context: JobContext) {
    this.#context = context;
  }

  get active(): Job | undefined {
    return this.#active;
  }

  refuseBusy(): void {
    if (!this.#active) return;
    const what = this.#active.kind === "run" ? "Agent is already running" : "A command is already running";
    const detail = `${what}. Call interrupt() first, or wait for the active operation to finish.`;
    throw new SluiceError("session_busy", detail);
  }

  async start(
    job: Job,
    from: string | undefined,
    submit: (link: Link, id: string) => Promise<string>,
  ): Promise<AgentResponse> {
    // Before the first await, so that a second call in the same tick is refused.
    this.#active = job;
    this.#listening.add(job);
    const forget = (): void => void this.#listening.delete(job);
    job.ended.then(forget, forget);
    const connection = this.#context.connect();
    try {
      const link = await connection.enter();
      const done = this.#perform(job, link, from, submit);
      done.catch(() => {}).finally(() => connection.leave());
      if (!job.background) return await done;
      await Promise.race([job.started, done]);
      if (job.id === undefined) return await done;
      const stdout = `Background process started with ID ${job.id}`;
      return { sandboxId: this.#context.sessionId() ?? "", exitCode: 0, stdout, stderr: "" };
    } catch (error) {
      job.abandon(error);
      throw error;
    } finally {
      this.#release(job);
    }
  }

  /** Adopts the active run or command of a joined session until its end. */
  adopt({ kind, id, background }: Activity): void {
    // A job with an id may be this activity. One without an id joins the session just now, and may be refused.
    if (this.#active && this.#active.id !== undefined) return;
    const job = new Job(kind, { background });
    job.join(id);
    if (this.#active) this.#joined = job;
    else this.#active = job;
    this.#listening.add(job);
    const connection = this.#context.connect();
    const entered = connection.enter();
    const end = (): void => {
      this.#listening.delete(job);
      entered.then(
        () => connection.leave(),
        () => {},
      );
    };
    job.ended.then(end, end);
  }

  /** Returns whether the job was interrupted. */
  async interrupt(link: Link, job: Job): Promise<boolean> {
    // The prompt is in the conversation only after the start.
    await job.started;
    const id = this.#context.sessionId();
    if (job.isOver || id === undefined) return false;
    const wasInterrupted = await link.interrupt(id).catch((error: unknown) => {
      if (codeOf(error) === "capability_missing") return false;
      throw error;
    });
    if (wasInterrupted) await job.ended.catch(() => {});
    return wasInterrupted;
  }

  see(event: SluiceEvent, emitted: readonly Emitted[]): void {
    for (const job of this.#listening) job.see(event, emitted);
    // Before the listeners are called: a listener of the end may start the next run.
    if (this.#active) this.#release(this.#active);
  }

  /** Abandons the jobs of a session that has ended, or whose log can no longer be followed. */
  lose(error: unknown): void {
    // A job without an id is not in this session yet: it may start in the next one.
    for (const job of this.#listening) if (job.id !== undefined) job.abandon(error);
  }

  /** Abandons the active job, which continues in its session. */
  letGo(reason: unknown): void {
    const jobs = [this.#active, this.#joined];
    this.#active = undefined;
    this.#joined = undefined;
    for (const job of jobs) job?.abandon(reason);
  }

  async #perform(
    job: Job,
    link: Link,
    from: string | undefined,
    submit: (link: Link, id: string) => Promise<string>,
  ): Promise<AgentResponse> {
    const sandboxId = await this.#context.enter(link, from);
    job.accept(await submit(link, sandboxId));
    this.#release(job);
    const { checkpointId, ...outcome } = await job.ended;
    const response = { sandboxId, ...outcome };
    return this.#context.complete(link, { kind: job.kind, response, checkpointId });
  }

  #release(job: Job): void {
    if (!job.isOver || this.#active !== job) return;
    this.#active = this.#joined?.isOver === false ? this.#joined : undefined;
    this.#joined = undefined;
  }
}
