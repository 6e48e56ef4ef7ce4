import { createId, type EventDraft, type Network } from "../contract/index.ts";
import type { SessionRow } from "../log/port.ts";
import type { NetworkPolicy, Sandbox } from "../sandbox/port.ts";
import type { SessionDeps } from "./deps.ts";

/** A new sandbox for the session, its making recorded as it happens. */
export async function createSandbox(
  deps: SessionDeps,
  { id: session, spec }: SessionRow,
  record: (event: EventDraft) => Promise<void>,
): Promise<Sandbox> {
  const provider = deps.provider(spec.sandbox ?? (await deps.defaultSandbox()));
  const fact = { sandbox_id: createId("sandbox"), provider: provider.id };
  await record({ type: "sandbox.boot", source: "daemon", data: fact });
  try {
    const sandbox = await provider.create({
      id: fact.sandbox_id,
      session,
      ...(spec.directory === undefined ? {} : { directory: spec.directory }),
      ...(spec.env === undefined ? {} : { env: spec.env }),
      ...(spec.image === undefined ? {} : { image: spec.image }),
      ...(spec.limits === undefined ? {} : { limits: spec.limits }),
      ...toNetwork(spec.network, deps.privateHosts),
    });
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

/** What somebody who reads the log should know of the place that the agent runs in. */
function messageOf({ isolated, shortcomings = [] }: Sandbox): { message?: string } {
  const open = isolated ? [] : ["no isolation: the agent can do whatever this user can do"];
  const message = [...open, ...shortcomings].join("; ");
  return message === "" ? {} : { message };
}
