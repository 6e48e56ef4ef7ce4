import { createId, type EventDraft, type Network } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import {
  DamagedSandboxError,
  type NetworkPolicy,
  type Sandbox,
  type SandboxSpec,
} from "../../sandbox/port.ts";
import type { SessionDeps } from "../deps.ts";

/** The sandbox in a session's log. */
export interface KnownSandbox {
  readonly id: string;
  readonly provider: string;
}

/** Connects to the sandbox. One with a damaged record is created again under its id, with its files and processes. */
export async function findSandbox(
  deps: SessionDeps,
  row: SessionRow,
  known: KnownSandbox,
): Promise<Sandbox | undefined> {
  try {
    return await deps.provider(known.provider).connect(known.id);
  } catch (error) {
    if (!(error instanceof DamagedSandboxError)) throw error;
    deps.logger({ level: "warn", message: error.message, session: row.id, sandbox: known.id });
    return remakeSandbox(deps, row, known);
  }
}

/** Creates the sandbox again under its id, and takes over its files and processes. */
export function remakeSandbox(deps: SessionDeps, row: SessionRow, known: KnownSandbox): Promise<Sandbox> {
  return deps.provider(known.provider).create(toSandboxSpec(deps, row, known.id));
}

/** Creates a sandbox for the session, also in place of a lost one. Each step is recorded as an event. */
export async function createSandbox(
  deps: SessionDeps,
  row: SessionRow,
  record: (event: EventDraft) => Promise<void>,
  known: KnownSandbox | null,
): Promise<Sandbox> {
  const { id: session, spec } = row;
  const provider = deps.provider(spec.sandbox ?? (await deps.defaultSandbox()));
  const id = known?.provider === provider.id ? known.id : createId("sandbox");
  const fact = { sandbox_id: id, provider: provider.id };
  await record({ type: "sandbox.boot", source: "daemon", data: fact });
  try {
    const sandbox = await provider.create(toSandboxSpec(deps, row, id));
    const told = messageOf(sandbox);
    if (told.message !== undefined) deps.logger({ level: "warn", message: told.message, session, ...fact });
    const data = { ...fact, isolated: sandbox.isolated, ...told };
    await record({ type: "sandbox.ready", source: "daemon", data });
    return sandbox;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    await record({ type: "sandbox.error", source: "daemon", data: { ...fact, message } });
    throw error;
  }
}

function toSandboxSpec(deps: SessionDeps, { id: session, spec }: SessionRow, id: string): SandboxSpec {
  return {
    id,
    session,
    ...(spec.directory === undefined ? {} : { directory: spec.directory }),
    ...(spec.env === undefined ? {} : { env: spec.env }),
    ...(spec.image === undefined ? {} : { image: spec.image }),
    ...(spec.limits === undefined ? {} : { limits: spec.limits }),
    ...toNetwork(spec.network, deps.privateHosts),
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
function messageOf({ isolated, shortcomings = [] }: Sandbox): { message?: string } {
  const open = isolated ? [] : ["no isolation: the agent can do whatever this user can do"];
  const message = [...open, ...shortcomings].join("; ");
  return message === "" ? {} : { message };
}
