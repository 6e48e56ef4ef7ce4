import type { SluiceEvent } from "../contract/index.ts";
import type { Emitted } from "../dialects/sdk/index.ts";
import { type CheckpointInfo, refuse } from "./agent-response.ts";
import { Connection } from "./backend/connection.ts";
import type { EmbeddedOptions } from "./backend/embedded.ts";
import type { Backend, Link } from "./backend/port.ts";
import { createRemoteBackend } from "./backend/remote.ts";
import { Builder, type SluiceListeners } from "./builder.ts";
import { CurrentSession } from "./current-session.ts";
import { type EventsOptions, type StreamedEvent, streamEvents } from "./events.ts";
import { type FileMap, toInnerPath, writeFiles } from "./files/workspace.ts";
import type { Activity } from "./job.ts";
import type { CheckpointStore } from "./storage.ts";

/** The controls of one session: files, ports, pause, checkpoints, and its events. */
export abstract class SessionControls extends Builder {
  protected readonly session: CurrentSession;
  #connection: Connection | undefined;
  /** Wakes the iterations that wait for a session. */
  #waiting: (() => void)[] = [];
  #closed = new AbortController();
  /** One function for each connection that a listener of `replay()` holds open; it releases the connection. */
  #releases: (() => void)[] = [];

  constructor() {
    super();
    this.session = new CurrentSession(this.settings, {
      onEvent: (event, emitted) => this.observe(event, emitted),
      onLifecycle: (event) => this.report({ type: "lifecycle", event }),
      onActivity: (activity) => this.adopt(activity),
      onEnd: (error) => this.lose(error),
    });
  }

  /** Called with each event of the log and its SDK events. */
  protected abstract observe(event: SluiceEvent, emitted: readonly Emitted[]): void;

  /** Called when the session has ended, or when its log can no longer be followed. */
  protected abstract lose(error: unknown): void;

  /** Called with a run or command that was active before the session was joined. */
  protected abstract adopt(activity: Activity): void;

  /** Interrupts the active run or command; throws if that is not possible. */
  protected abstract stopWork(): Promise<void>;

  /**
   * The sandbox's id, which is also the session's; null without a sandbox.
   *
   * @example
   * const sandboxId = sluice.getSession();
   */
  getSession(): string | null {
    return this.session.id ?? null;
  }

  /**
   * Uploads files to `/home/user/workspace/context/` now.
   *
   * @example
   * await sluice.uploadContext({ "spec.json": JSON.stringify({ version: 1 }) });
   */
  async uploadContext(files: FileMap): Promise<void> {
    await this.#upload("context", files);
  }

  /**
   * Uploads files to `/home/user/workspace/` now, and creates their folders.
   *
   * @example
   * await sluice.uploadFiles({ "scripts/setup.sh": "#!/bin/bash\necho hello" });
   */
  async uploadFiles(files: FileMap): Promise<void> {
    await this.#upload("", files);
  }

  /**
   * The address of a port of the sandbox, on loopback. It asks for no token: every user of the machine can reach it.
   *
   * @example
   * await sluice.executeCommand("npm run dev -- --port 8000", { background: true });
   * console.log(await sluice.getHost(8000));
   */
  async getHost(port: number): Promise<string> {
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      throw refuse(`${port} is not a port; give a number from 1 to 65535`);
    return this.use(async (link) => link.host(await this.session.open(link), port));
  }

  /**
   * Interrupts the active run or command and suspends the sandbox.
   *
   * @example
   * await sluice.pause();
   * await sluice.resume();
   */
  async pause(): Promise<void> {
    await this.stopWork();
    await this.#control((link, id) => link.pause(id));
  }

  /**
   * Resumes a suspended sandbox.
   *
   * @example
   * await sluice.resume();
   */
  async resume(): Promise<void> {
    await this.#control((link, id) => link.resume(id));
  }

  /**
   * Makes a checkpoint of the sandbox's files and of the agent's memory. Needs `withStorage()`.
   *
   * @example
   * const { id } = await sluice.checkpoint({ comment: "before refactor" });
   */
  async checkpoint(options: { comment?: string } = {}): Promise<CheckpointInfo> {
    this.demandStore("checkpoint()");
    return this.#control((link, id) => link.checkpoint(id, options));
  }

  /**
   * The checkpoints of the storage, newest first. Needs `withStorage()`.
   *
   * @example
   * const [newest] = await sluice.listCheckpoints({ limit: 10 });
   */
  async listCheckpoints(options: { limit?: number } = {}): Promise<CheckpointInfo[]> {
    const store = this.demandStore("listCheckpoints()");
    const { limit = 100 } = options;
    return this.use((link) => link.listCheckpoints(store.name, { limit: Math.min(limit, 500) }));
  }

  /**
   * Iterates over the events that listeners get, from any sequence of the log on, until the sandbox is killed.
   *
   * @example
   * for await (const event of sluice.events({ after: 0 })) {
   *   if (event.type === "content") console.log(event.sequence, event.event.update.sessionUpdate);
   * }
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<StreamedEvent, void, undefined> {
    const { after, signal: given } = options;
    const signal = AbortSignal.any([this.#closed.signal, ...(given ? [given] : [])]);
    await this.#whenOpened(signal);
    if (signal.aborted) return;
    const connection = this.connect();
    const link = await connection.enter();
    try {
      const session = await this.session.open(link);
      for await (const { sequence, emitted } of streamEvents(link, session, { after, signal }))
        for (const part of emitted) yield { sequence, ...part };
    } finally {
      connection.leave();
    }
  }

  /**
   * Adds a listener that also gets the past events, each event once, until `close()` or `kill()`.
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
    if (this.session.id === undefined) return attach(type, listener);
    const connection = this.connect();
    const link = await connection.enter();
    this.#releases.push(() => connection.leave());
    const session = await this.session.open(link);
    if (this.session.cursor === 0) return attach(type, listener);
    const done = new AbortController();
    const past = { after: options.after, signal: done.signal };
    let isAttached = false;
    for await (const { sequence, emitted } of streamEvents(link, session, past)) {
      const { cursor } = this.session;
      // An event after the cursor comes to all listeners, so to this one, too.
      for (const part of sequence > cursor ? [] : emitted)
        if (part.type === type)
          (listener as (value: unknown) => void)("event" in part ? part.event : part.chunk);
      if (sequence < cursor) continue;
      // Attached before the `break`, which waits until the stream is closed: an event may come meanwhile.
      attach(type, listener);
      isAttached = true;
      break;
    }
    if (!isAttached) attach(type, listener);
    done.abort();
    return this;
  }

  protected releaseListeners(): void {
    for (const release of this.#releases.splice(0)) release();
  }

  protected endIterations(): void {
    this.#closed.abort();
    this.#closed = new AbortController();
  }

  protected use<R>(task: (link: Link) => Promise<R>): Promise<R> {
    return this.connect().use(task);
  }

  protected connect(): Connection {
    const { server, data, sandbox, checkpointStore } = this.settings;
    this.#connection ??= new Connection(
      server
        ? createRemoteBackend({ ...server, sandbox })
        : toEmbeddedBackend({ data, sandbox, checkpointStore }),
      { onClosing: () => this.session.stopReading() },
    );
    return this.#connection;
  }

  protected async disconnect(): Promise<void> {
    await this.#connection?.close();
  }

  /** The next call opens a new connection; calls on the old one finish there. */
  protected reconnect(): this {
    const old = this.#connection;
    this.#connection = undefined;
    void old?.close();
    return this;
  }

  /** Joins or creates the session; with the files of a checkpoint, if one is given. */
  protected async enter(link: Link, checkpoint?: string): Promise<string> {
    const id = await (checkpoint === undefined
      ? this.session.open(link)
      : this.session.branch(link, checkpoint));
    for (const wake of this.#waiting.splice(0)) wake();
    return id;
  }

  /** Resolves when there is a session. */
  async #whenOpened(signal: AbortSignal): Promise<void> {
    if (this.session.id !== undefined || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  protected demandStore(what: string): CheckpointStore {
    const { checkpointStore } = this.settings;
    if (checkpointStore) return checkpointStore;
    throw refuse(`${what} needs a storage for checkpoints; configure one with withStorage()`);
  }

  async #upload(folder: string, files: FileMap): Promise<void> {
    for (const path of Object.keys(files)) toInnerPath(path);
    await this.use(async (link) => writeFiles(link, await this.enter(link), folder, files));
  }

  async #control<R>(task: (link: Link, id: string) => Promise<R>): Promise<R> {
    if (this.session.id === undefined)
      throw refuse("there is no sandbox yet; the first run() or executeCommand() creates one");
    return this.use(async (link) => {
      const result = await task(link, await this.session.open(link));
      await this.session.settle(link);
      return result;
    });
  }
}

/** The engine is loaded when it is used: a program that talks to a server needs none. */
function toEmbeddedBackend(options: EmbeddedOptions): Backend {
  return {
    async open() {
      const { createEmbeddedBackend } = await import("./backend/embedded.ts");
      return createEmbeddedBackend(options).open();
    },
  };
}
