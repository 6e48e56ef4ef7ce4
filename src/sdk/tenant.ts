import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import type { Told } from "../dialects/content/index.ts";
import type { CheckpointInfo } from "./agent-response.ts";
import type { Link } from "./backend.ts";
import { Builder } from "./builder.ts";
import { Connection } from "./connection.ts";
import { createEmbeddedBackend } from "./embedded.ts";
import { type FileMap, toInnerPath } from "./file-map.ts";
import { writeFiles } from "./furnish.ts";
import { createRemoteBackend } from "./remote.ts";
import type { Shelf } from "./storage.ts";
import { type Activity, Workplace } from "./workplace.ts";

/** Lives in one sandbox: what can be done there beside running something. */
export abstract class Tenant extends Builder {
  protected readonly workplace: Workplace;
  #connection: Connection | undefined;
  #placed: (() => void)[] = [];

  constructor() {
    super();
    this.workplace = new Workplace(this.settings, {
      onEvent: (event, told) => this.hear(event, told),
      onLifecycle: (event) => this.tell({ type: "lifecycle", event }),
      onActivity: (activity) => this.adopt(activity),
      onEnd: (error) => this.lose(error),
    });
  }

  /** What the log says, and what listeners are told of it. */
  protected abstract hear(event: SluiceEvent, told: readonly Told[]): void;

  /** The session has ended, or cannot be followed any more. */
  protected abstract lose(error: unknown): void;

  /** Something runs already in the session that was joined. */
  protected abstract adopt(activity: Activity): void;

  /** Ends what is active, or refuses. */
  protected abstract stopWork(): Promise<void>;

  /**
   * The sandbox's id, which is the session's, or null where there is none.
   *
   * @example
   * const sandboxId = sluice.getSession();
   */
  getSession(): string | null {
    return this.workplace.id ?? null;
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
   * Where a port that a program in the sandbox listens on can be reached.
   *
   * @example
   * await sluice.executeCommand("npm run dev -- --port 8000", { background: true });
   * console.log(await sluice.getHost(8000));
   */
  async getHost(port: number): Promise<string> {
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      throw refuse(`${port} is no port; a program in the sandbox listens on one from 1 to 65535`);
    return this.use(async (link) => link.host(await this.workplace.open(link), port));
  }

  /**
   * Suspends the sandbox with all that is in it; what is active is interrupted first.
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
   * Lets a suspended sandbox go on.
   *
   * @example
   * await sluice.resume();
   */
  async resume(): Promise<void> {
    await this.#control((link, id) => link.resume(id));
  }

  /**
   * Keeps the files of the sandbox as they are now, and the agent's memory with them. Needs `withStorage()`.
   *
   * @example
   * const { id } = await sluice.checkpoint({ comment: "before refactor" });
   */
  async checkpoint(options: { comment?: string } = {}): Promise<CheckpointInfo> {
    this.demandShelf("checkpoint()");
    return this.#control((link, id) => link.checkpoint(id, options));
  }

  /**
   * The checkpoints of the storage, newest first. Needs `withStorage()`.
   *
   * @example
   * const [newest] = await sluice.listCheckpoints({ limit: 10 });
   */
  async listCheckpoints(options: { limit?: number } = {}): Promise<CheckpointInfo[]> {
    const shelf = this.demandShelf("listCheckpoints()");
    const { limit = 100 } = options;
    return this.use((link) => link.shelved(shelf.name, { limit: Math.min(limit, 500) }));
  }

  protected use<R>(task: (link: Link) => Promise<R>): Promise<R> {
    return this.connect().use(task);
  }

  protected connect(): Connection {
    const { server, data, sandbox, shelf } = this.settings;
    this.#connection ??= new Connection(
      server ? createRemoteBackend({ ...server, sandbox }) : createEmbeddedBackend({ data, sandbox, shelf }),
      { onClosing: () => this.workplace.rest() },
    );
    return this.#connection;
  }

  protected async disconnect(): Promise<void> {
    await this.#connection?.close();
  }

  /** What comes next goes another way; whoever is on the old one finishes there. */
  protected reconnect(): this {
    const old = this.#connection;
    this.#connection = undefined;
    void old?.close();
    return this;
  }

  /** The session, joined or made: with the files of a checkpoint, if one is named. */
  protected async enter(link: Link, checkpoint?: string): Promise<string> {
    const id = await (checkpoint === undefined
      ? this.workplace.open(link)
      : this.workplace.branch(link, checkpoint));
    for (const wake of this.#placed.splice(0)) wake();
    return id;
  }

  /** Resolves when there is a session. */
  protected async whenPlaced(signal: AbortSignal): Promise<void> {
    if (this.workplace.id !== undefined || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#placed.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  protected demandShelf(what: string): Shelf {
    const { shelf } = this.settings;
    if (shelf) return shelf;
    throw refuse(`${what} needs a storage for checkpoints; configure one with withStorage()`);
  }

  async #upload(folder: string, files: FileMap): Promise<void> {
    for (const path of Object.keys(files)) toInnerPath(path);
    await this.use(async (link) => writeFiles(link, await this.enter(link), folder, files));
  }

  async #control<R>(task: (link: Link, id: string) => Promise<R>): Promise<R> {
    if (this.workplace.id === undefined)
      throw refuse("there is no sandbox yet; the first run() or executeCommand() makes one");
    return this.use(async (link) => {
      const result = await task(link, await this.workplace.open(link));
      await this.workplace.settle(link);
      return result;
    });
  }
}

/** What cannot be done as it was asked for. */
export function refuse(detail: string): SluiceError {
  return new SluiceError("invalid_request", detail);
}
