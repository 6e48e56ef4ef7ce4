import { createId, SluiceError, type SluiceEvent } from "../contract/index.ts";
import {
  type AgentRuntimeState,
  type LifecycleEvent,
  type SandboxLifecycleState,
} from "../dialects/sdk/events.ts";
import { type ContentState, type Emitted, initialContent } from "../dialects/sdk/index.ts";
import { codeOf, type Link } from "./backend/port.ts";
import { type Beginning, findBeginning, Follower } from "./events.ts";
import { placeFiles } from "./files/workspace.ts";
import type { Activity } from "./job.ts";
import { type Settings, toSessionSpec } from "./settings.ts";

export interface SessionHooks {
  onEvent(event: SluiceEvent, emitted: readonly Emitted[]): void;
  /** Lifecycle events that are not in the log: this instance joined a sandbox, or failed to. */
  onLifecycle(event: LifecycleEvent): void;
  /** A run or command that was active before the session was joined. */
  onActivity(activity: Activity): void;
  onEnd(error?: unknown): void;
}

/** The one session of an instance: selected, joined, created, left. */
export class CurrentSession {
  readonly #settings: Settings;
  readonly #hooks: SessionHooks;
  #id: string | undefined;
  /** Whether a caller named the session; otherwise this instance created it. */
  #isGiven = false;
  #follower: Follower | undefined;
  #opening: Promise<string> | undefined;
  #joining: Promise<void> | undefined;
  /** Whether `sandbox_connected` was reported. */
  #isConnected = false;
  #sandbox: SandboxLifecycleState = "stopped";
  #agent: AgentRuntimeState = "idle";
  #hasRun = false;

  constructor(settings: Settings, hooks: SessionHooks) {
    this.#settings = settings;
    this.#hooks = hooks;
  }

  get id(): string | undefined {
    return this.#id;
  }

  get isGiven(): boolean {
    return this.#isGiven;
  }

  get sandbox(): SandboxLifecycleState {
    return this.#sandbox;
  }

  get agent(): AgentRuntimeState {
    return this.#agent;
  }

  get hasRun(): boolean {
    return this.#hasRun;
  }

  /** The id of the active run or command. Another client may have started it. */
  get active(): string | undefined {
    return this.#activity?.id;
  }

  get #activity(): Activity | undefined {
    const { turn, command } = this.#follower?.state ?? {};
    if (turn) return { kind: "run", ...turn };
    return command ? { kind: "command", ...command } : undefined;
  }

  get isJoined(): boolean {
    return this.#follower !== undefined;
  }

  /** The last sequence that was read. */
  get cursor(): number {
    return this.#follower?.cursor ?? 0;
  }

  /** Selects the session by its id. The first call that needs the session joins it. */
  select(id: string): Promise<void> {
    const stopped = this.#follower?.stop();
    this.#leave("ready");
    this.#id = id;
    this.#isGiven = true;
    return stopped ?? Promise.resolve();
  }

  /** Joins or creates the session; concurrent callers get the same one. */
  open(link: Link): Promise<string> {
    this.#opening ??= this.#open(link).finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Joins the session, if there is one, without resuming its sandbox. */
  async watch(link: Link): Promise<void> {
    await this.#opening?.catch(() => {});
    const id = this.#id;
    if (id === undefined) return;
    await this.#join(link, id);
    await this.settle(link);
    this.#reportActivity();
  }

  /** Replaces the session by a new one with the files of a checkpoint. The files of the old session stay for a while. */
  async branch(link: Link, checkpoint: string): Promise<string> {
    await this.#opening?.catch(() => {});
    const old = this.#id;
    const restore = (id: string): Promise<void> => link.restore(id, checkpoint);
    const branching = old === undefined ? this.#make(link, restore) : this.#replace(link, old, restore);
    this.#opening = branching.finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Ends the session and removes its sandbox. */
  async destroy(link: Link): Promise<void> {
    await this.#opening?.catch(() => {});
    const id = this.#id;
    if (id === undefined) return;
    await this.#join(link, id).catch(() => {});
    await link.terminate(id, { destroy: true }).catch((error: unknown) => {
      if (codeOf(error) !== "session_not_found") throw error;
    });
    await this.#follower?.finished();
    this.#leave("stopped");
  }

  /** Resolves when all events so far are reported. */
  async settle(link: Link): Promise<void> {
    const id = this.#id;
    const follower = this.#follower;
    if (id === undefined || !follower) return;
    const info = await link.find(id);
    await follower.reached(info?.eventCount ?? 0);
  }

  /** Stops reading the log until the next `open` or `watch`. */
  async stopReading(): Promise<void> {
    await this.#follower?.stop();
  }

  async #open(link: Link): Promise<string> {
    const id = this.#id;
    if (id === undefined) return this.#make(link, (made) => placeFiles(link, made, this.#settings));
    try {
      await this.#join(link, id);
      if (this.#isConnected) return id;
      this.#isConnected = true;
      const isPaused = this.#follower?.state.sandbox === "paused";
      this.#reportLifecycle("sandbox_connected", isPaused ? "ready" : this.#sandbox, this.#agent);
      this.#reportActivity();
      if (isPaused) await link.resume(id);
    } catch (error) {
      this.#reportLifecycle("sandbox_error", "error", "error");
      throw error;
    }
    return id;
  }

  /** Follows the session; earlier events only update the state. */
  async #join(link: Link, id: string): Promise<void> {
    if (this.#follower) return this.#follower.start(link);
    this.#joining ??= this.#joinNow(link, id).finally(() => {
      this.#joining = undefined;
    });
    await this.#joining;
  }

  /** Reads the session's state from its log, and follows the log from there. */
  async #joinNow(link: Link, id: string): Promise<void> {
    const info = await link.find(id);
    if (!info) throw new SluiceError("session_not_found", `There is no sandbox ${id} to connect to.`);
    if (info.ended)
      throw new SluiceError("session_ended", `The sandbox ${id} is gone; its session has ended.`);
    const beginning = await findBeginning(link, info, info.eventCount);
    const follower = this.#follow(id, { beginning, quietUntil: info.eventCount });
    follower.start(link);
    await follower.reached(info.eventCount);
    // Another session was selected meanwhile.
    if (this.#id !== id) return follower.stop();
    this.#follower = follower;
    const { turn, command, sandbox, runtime } = follower.state;
    const isWorking = Boolean(turn ?? command);
    const idleSandbox = sandbox === "paused" ? "paused" : "ready";
    const idleAgent = runtime === "running" ? "idle" : runtime;
    this.#hasRun = info.nativeSessionId !== null || turn !== null;
    this.#sandbox = isWorking ? "running" : idleSandbox;
    this.#agent = isWorking ? "running" : idleAgent;
  }

  #reportActivity(): void {
    const activity = this.#activity;
    if (activity) this.#hooks.onActivity(activity);
  }

  async #make(link: Link, prepare: (id: string) => Promise<void>): Promise<string> {
    const id = await this.#create(link);
    const follower = this.#enter(link, id);
    try {
      await prepare(id);
      await this.settle(link);
      return id;
    } catch (error) {
      await this.settle(link).catch(() => {});
      await link.terminate(id, { destroy: true }).catch(() => {});
      await follower.finished();
      this.#leave(this.#sandbox === "error" ? "error" : "stopped");
      throw error;
    }
  }

  /** Ends the old session only after the new one is prepared. */
  async #replace(link: Link, old: string, prepare: (id: string) => Promise<void>): Promise<string> {
    const id = await this.#create(link);
    await prepare(id).catch(async (error: unknown) => {
      await link.terminate(id, { destroy: true }).catch(() => {});
      throw error;
    });
    await link.terminate(old, { destroy: false });
    await this.#follower?.finished();
    this.#leave("stopped");
    this.#enter(link, id);
    await this.settle(link);
    return id;
  }

  async #create(link: Link): Promise<string> {
    const id = createId("session");
    await link.create(id, await toSessionSpec(this.#settings, link));
    return id;
  }

  #enter(link: Link, id: string): Follower {
    const beginning = { after: 0, state: initialContent({ agent: this.#settings.agent.type }) };
    const follower = this.#follow(id, { beginning });
    follower.start(link);
    this.#id = id;
    this.#follower = follower;
    this.#isConnected = true;
    return follower;
  }

  #follow(session: string, options: { beginning: Beginning; quietUntil?: number }): Follower {
    return new Follower({
      session,
      ...options,
      onEvent: (event, emitted, state) => this.#observe(event, emitted, state),
      onEnd: (error) => this.#hooks.onEnd(error),
    });
  }

  #observe(event: SluiceEvent, emitted: readonly Emitted[], state: ContentState): void {
    if (event.type === "turn.started") this.#hasRun = true;
    if (emitted.some(({ type }) => type === "lifecycle")) {
      this.#sandbox = state.sandbox;
      this.#agent = state.runtime;
    }
    this.#hooks.onEvent(event, emitted);
  }

  #reportLifecycle(
    reason: LifecycleEvent["reason"],
    sandbox: SandboxLifecycleState,
    agent: AgentRuntimeState,
  ): void {
    this.#sandbox = sandbox;
    this.#agent = agent;
    const timestamp = new Date().toISOString();
    this.#hooks.onLifecycle({ sandboxId: this.#id ?? null, sandbox, agent, timestamp, reason });
  }

  #leave(sandbox: SandboxLifecycleState): void {
    this.#id = undefined;
    this.#isGiven = false;
    this.#follower = undefined;
    this.#isConnected = false;
    this.#sandbox = sandbox;
    this.#agent = sandbox === "error" ? "error" : "idle";
    this.#hasRun = false;
  }
}
