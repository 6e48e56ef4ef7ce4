import { join } from "node:path";
import { defined } from "../../contract/own-keys.ts";
import { createId, SluiceError, type EventDraft, type Network } from "../../contract/index.ts";
import {
  DamagedSandboxError,
  type NetworkPolicy,
  type Sandbox,
  type SandboxClaim,
  type SandboxProvider,
  type SandboxSpec,
} from "../../sandbox/port.ts";
import type { SessionContext } from "../context.ts";
import type { SessionDeps } from "../deps.ts";
import { mayPass, messageOf } from "../failure.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { SessionWriter } from "../fold/writer.ts";
import type { KnownSandbox } from "./sandbox-fold.ts";

/** How often a sandbox with a lifetime is told that its processes run. */
const PULSE_MS = 60_000;

/** The sandbox of a session: created when it is needed, found again after a restart, removed. */
export class SessionSandbox {
  readonly #context: SessionContext;
  /** One object for all callers, so that its open handles exist once. */
  #sandbox: Sandbox | undefined;
  #making: Promise<Sandbox> | undefined;
  #pulse: NodeJS.Timeout | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** The session's sandbox; undefined where there is none, and while it is being made. */
  async connected(): Promise<Sandbox | undefined> {
    if (this.#making !== undefined) return undefined;
    const sandbox = await this.#connect();
    this.#touch(sandbox);
    return sandbox;
  }

  /**
   * As `connected`, for a sandbox in which something may still run: a deleted one of this machine is created again.
   * Nothing runs in one that is gone from another machine.
   */
  async recovered(): Promise<Sandbox | undefined> {
    const { deps, writer } = this.#context;
    const known = writer.fold.sandbox;
    const connected = await this.connected();
    if (connected || !known || this.#making || isElsewhere(deps, known)) return connected;
    if (deps.provider(known.provider).hasPrograms) return undefined;
    this.#sandbox = await remakeSandbox(deps, writer, known);
    return this.#sandbox;
  }

  /**
   * The session's sandbox, created where there is none. Concurrent callers share one creation. Never call it under the
   * lock: it needs the lock to record its events.
   */
  made(): Promise<Sandbox> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  get isMaking(): boolean {
    return this.#making !== undefined;
  }

  /** The sandbox that the session has moved to. */
  replace(sandbox: Sandbox): void {
    this.#sandbox = sandbox;
  }

  /** Resolves when no sandbox is being made, whatever the result. */
  async settled(): Promise<void> {
    await this.#making?.catch(() => {});
  }

  async host(port: number): Promise<URL> {
    const { writer, exclusive } = this.#context;
    const sandbox = await this.made();
    // The program that opens the port is frozen too, so the call would wait until the resume.
    if (await exclusive(async () => writer.fold.paused))
      throw new SluiceError("session_busy", "the sandbox is paused; resume it first");
    if (!sandbox.host) throw lacks(sandbox, "forward ports");
    return sandbox.host(port);
  }

  /** Ends the sandbox and removes its files. Call it under the lock, when nothing runs in the sandbox. */
  async destroy(drafts: Drafts): Promise<void> {
    const sandbox = await this.reachable();
    if (!sandbox) return;
    await sandbox.destroy();
    this.#sandbox = undefined;
    drafts.add({ type: "sandbox.killed", source: "daemon", data: toSandboxData(sandbox) });
  }

  /** Ends the sandbox without an event. One that cannot be reached is ended by the upkeep when the session is gone. */
  async remove(): Promise<void> {
    await (await this.reachable())?.destroy();
    this.#sandbox = undefined;
  }

  /** The sandbox for an end or a kill; undefined where it is damaged beyond use. */
  async reachable(): Promise<Sandbox | undefined> {
    const { deps, writer } = this.#context;
    const { processOpen, command } = writer.fold;
    try {
      return await (processOpen || command ? this.recovered() : this.connected());
    } catch (error) {
      if (mayPass(error)) throw error;
      const message = "the sandbox cannot be reached";
      deps.logger({ level: "error", message, session: writer.row.id, error: messageOf(error) });
      return undefined;
    }
  }

  /** Closes the handles. The processes in the sandbox run on. */
  async release(): Promise<void> {
    clearInterval(this.#pulse);
    this.#pulse = undefined;
    await this.#sandbox?.release?.();
  }

  async #connect(): Promise<Sandbox | undefined> {
    const { deps, writer } = this.#context;
    const known = writer.fold.sandbox;
    if (!known || isElsewhere(deps, known)) return undefined;
    if (this.#sandbox?.id !== known.id || this.#sandbox.isGone) {
      await this.#sandbox?.release?.();
      const found = await findSandbox(deps, writer, known);
      // A server may have crashed between the freeze and its event.
      if (!writer.fold.paused) await found?.resume?.();
      this.#sandbox = found;
    }
    return this.#sandbox;
  }

  /** The lock is free meanwhile: messages are accepted while a sandbox is made. */
  async #make(): Promise<Sandbox> {
    const { deps, writer, exclusive, commit } = this.#context;
    const record = (event: EventDraft): Promise<void> => exclusive(() => commit(writer.drafts([event])));
    const known = await this.#connect();
    await known?.touch?.();
    const connected = known?.isGone ? await this.#connect() : known;
    this.#sandbox = connected ?? (await createSandbox(deps, writer, record));
    this.#touch(this.#sandbox);
    return this.#sandbox;
  }

  /** Tells a sandbox with a lifetime that it is needed: now, and while something runs in it. */
  #touch(sandbox: Sandbox | undefined): void {
    if (!sandbox?.touch) return;
    const { writer } = this.#context;
    void sandbox.touch();
    this.#pulse ??= setInterval(() => {
      const { processOpen, command, paused } = writer.fold;
      if (!paused && (processOpen || command)) void this.#sandbox?.touch?.();
    }, PULSE_MS).unref();
  }
}

export function toSandboxData({ id, provider }: Sandbox): { sandbox_id: string; provider: string } {
  return { sandbox_id: id, provider };
}

export function lacks({ provider }: Sandbox, capability: string): SluiceError {
  const detail = `a ${provider} sandbox cannot ${capability}; use another provider`;
  return new SluiceError("capability_missing", detail);
}

/** Whether the sandbox stayed behind on another node. A folder of its id may be here, from an earlier time. */
function isElsewhere({ lease }: SessionDeps, { node }: KnownSandbox): boolean {
  return lease.isShared && node !== undefined && node !== lease.node;
}

/** Connects to the sandbox. One with a damaged record is created again under its id, with its files and processes. */
async function findSandbox(
  deps: SessionDeps,
  writer: SessionWriter,
  known: KnownSandbox,
): Promise<Sandbox | undefined> {
  try {
    return await deps.provider(known.provider).connect(known.id, toClaim(deps, writer));
  } catch (error) {
    if (!(error instanceof DamagedSandboxError)) throw error;
    deps.logger({ level: "warn", message: error.message, session: writer.row.id, sandbox: known.id });
    return remakeSandbox(deps, writer, known);
  }
}

/** Creates the sandbox again under its id, and takes over its files and processes. */
function remakeSandbox(deps: SessionDeps, writer: SessionWriter, known: KnownSandbox): Promise<Sandbox> {
  return makeSandbox(deps, writer, { provider: deps.provider(known.provider), id: known.id });
}

/** Creates a sandbox with the session's settings. */
export function makeSandbox(
  deps: SessionDeps,
  writer: Pick<SessionWriter, "row" | "spec" | "epoch">,
  { provider, id }: { provider: SandboxProvider; id: string },
): Promise<Sandbox> {
  return provider.create(toSandboxSpec(deps, writer, id), toClaim(deps, writer));
}

function toClaim(deps: SessionDeps, { row, epoch }: Pick<SessionWriter, "row" | "epoch">): SandboxClaim {
  return { spools: join(deps.spoolRoot, row.id), epoch };
}

/** Creates a sandbox for the session, also in place of a lost one. Each step is recorded as an event. */
async function createSandbox(
  deps: SessionDeps,
  writer: SessionWriter,
  record: (event: EventDraft) => Promise<void>,
): Promise<Sandbox> {
  const { row, fold } = writer;
  const { id: session } = row;
  const known = fold.sandbox;
  const provider = deps.provider(writer.spec.sandbox ?? (await deps.defaultSandbox()));
  const isSame = known?.provider === provider.id && !isElsewhere(deps, known);
  const id = isSame ? known.id : createId("sandbox");
  const ids = { sandbox_id: id, provider: provider.id, ...defined({ node: deps.lease.node }) };
  await record({ type: "sandbox.boot", source: "daemon", data: ids });
  try {
    const sandbox = await makeSandbox(deps, writer, { provider, id });
    const message = shortcomingsOf(sandbox);
    if (message !== undefined) deps.logger({ level: "warn", message, session, ...ids });
    const data = { ...ids, isolated: sandbox.isolated, ...defined({ message }) };
    await record({ type: "sandbox.ready", source: "daemon", data });
    return sandbox;
  } catch (error) {
    const data = { ...ids, message: messageOf(error) };
    await record({ type: "sandbox.error", source: "daemon", data });
    throw error;
  }
}

function toSandboxSpec(
  deps: SessionDeps,
  { row, spec }: Pick<SessionWriter, "row" | "spec">,
  id: string,
): SandboxSpec {
  const { id: session } = row;
  const { directory, env, image, limits, network } = spec;
  return {
    id,
    session,
    ...defined({ directory, env, image, limits }),
    ...toNetwork(network, deps.privateHosts),
  };
}

export function toPolicy(network: Network): NetworkPolicy {
  return toNetwork(network, []).network ?? { mode: "allow", hosts: [] };
}

function toNetwork(
  network: Network | undefined,
  privateHosts: readonly string[],
): { network?: NetworkPolicy } {
  if (typeof network === "string") return { network: { mode: network } };
  if (network === undefined && privateHosts.length === 0) return {};
  const { allow: hosts, private: own = [] } = network ?? { allow: [] };
  const names = [...new Set([...privateHosts, ...own])];
  return { network: { mode: "allow", hosts, ...(names.length === 0 ? {} : { private: names }) } };
}

/** The shortcomings of the sandbox, for readers of the log. */
export function shortcomingsOf({ isolated, shortcomings = [] }: Sandbox): string | undefined {
  const open = isolated ? [] : ["no isolation: the agent can do whatever this user can do"];
  return [...open, ...shortcomings].join("; ") || undefined;
}
