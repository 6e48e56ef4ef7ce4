import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import type { Told } from "../dialects/content/index.ts";
import type { AgentResponse } from "./agent-response.ts";
import { codeOf, type Link } from "./backend.ts";
import type { Connection } from "./connection.ts";
import { Operation } from "./operation.ts";
import type { Activity } from "./workplace.ts";

/** Where work is done: how it is reached, entered and looked at before and after. */
export interface WorkSite {
  connect(): Connection;
  /** The session to work in; with the files of a checkpoint, if one is named. */
  enter(link: Link, from: string | undefined): Promise<string>;
  /** Its id, where there is one. */
  id(): string | undefined;
  /** Completes what an operation that went well came to. */
  complete(
    link: Link,
    outcome: { kind: Operation["kind"]; response: AgentResponse; checkpointId: string | undefined },
  ): Promise<AgentResponse>;
}

/** The one run or command that an instance may have, and those whose end is still awaited. */
export class Work {
  readonly #site: WorkSite;
  /** Nothing else may start. */
  #active: Operation | undefined;
  /** What still has to hear something: how an agent's process ended is said behind the end of its run. */
  readonly #listening = new Set<Operation>();

  constructor(site: WorkSite) {
    this.#site = site;
  }

  get active(): Operation | undefined {
    return this.#active;
  }

  refuseBusy(): void {
    if (!this.#active) return;
    const what = this.#active.kind === "run" ? "Agent is already running" : "A command is already running";
    throw new SluiceError(
      "session_busy",
      `${what}. Call interrupt() first, or wait for the active operation to finish.`,
    );
  }

  async start(
    operation: Operation,
    from: string | undefined,
    begin: (link: Link, id: string) => Promise<string>,
  ): Promise<AgentResponse> {
    // Before anything is awaited: a second call of the same tick finds it here.
    this.#active = operation;
    this.#listening.add(operation);
    const forget = (): void => void this.#listening.delete(operation);
    operation.ended.then(forget, forget);
    const connection = this.#site.connect();
    try {
      const link = await connection.enter();
      const done = this.#perform(operation, link, from, begin);
      done.catch(() => {}).finally(() => connection.leave());
      if (!operation.background) return await done;
      await Promise.race([operation.started, done]);
      if (operation.id === undefined) return await done;
      const stdout = `Background process started with ID ${operation.id}`;
      return { sandboxId: this.#site.id() ?? "", exitCode: 0, stdout, stderr: "" };
    } catch (error) {
      operation.abandon(error);
      throw error;
    } finally {
      this.#release(operation);
    }
  }

  /** What runs in a session that this instance has joined counts as its own: it is heard to its end. */
  adopt({ kind, id, background }: Activity): void {
    if (this.#active) return;
    const operation = new Operation(kind, { background });
    operation.join(id);
    this.#active = operation;
    this.#listening.add(operation);
    const connection = this.#site.connect();
    const entered = connection.enter();
    const end = (): void => {
      this.#listening.delete(operation);
      entered.then(
        () => connection.leave(),
        () => {},
      );
    };
    operation.ended.then(end, end);
  }

  /** Whether there was something to end, and a way to end it. */
  async interrupt(link: Link, operation: Operation): Promise<boolean> {
    // One that is only about to begin is waited for: what was asked for should be in the conversation.
    await operation.started;
    const id = this.#site.id();
    if (operation.isOver || id === undefined) return false;
    const did = await link.interrupt(id).catch((error: unknown) => {
      if (codeOf(error) === "capability_missing") return false;
      throw error;
    });
    if (did) await operation.ended.catch(() => {});
    return did;
  }

  see(event: SluiceEvent, told: readonly Told[]): void {
    for (const operation of this.#listening) operation.see(event, told);
    // A listener that hears of the end may start the next run.
    if (this.#active) this.#release(this.#active);
  }

  /** Nothing more will come from where it runs. */
  lose(error: unknown): void {
    // One that was not accepted yet is about to begin elsewhere.
    for (const operation of this.#listening) if (operation.id !== undefined) operation.abandon(error);
  }

  /** Nobody waits for it here any more; it goes on. */
  letGo(reason: unknown): void {
    const operation = this.#active;
    this.#active = undefined;
    operation?.abandon(reason);
  }

  async #perform(
    operation: Operation,
    link: Link,
    from: string | undefined,
    begin: (link: Link, id: string) => Promise<string>,
  ): Promise<AgentResponse> {
    const sandboxId = await this.#site.enter(link, from);
    operation.accept(await begin(link, sandboxId));
    this.#release(operation);
    const { checkpointId, ...outcome } = await operation.ended;
    const response = { sandboxId, ...outcome };
    return this.#site.complete(link, { kind: operation.kind, response, checkpointId });
  }

  #release(operation: Operation): void {
    if (operation.isOver && this.#active === operation) this.#active = undefined;
  }
}
