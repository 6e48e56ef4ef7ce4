import { toInterrupt } from "./interrupt.ts";
import { isRecord } from "./payload.ts";
import type { AgUiState, Shared } from "./state.ts";
import type { Teller } from "./teller.ts";

/** The key under which the agent's state, which is the client's own, speaks of us. */
const KEY = "sluice";

/** The state as a client of this dialect keeps it: what it gave us, and how things stand. */
export function toSnapshot({ clientState }: Pick<AgUiState, "clientState">, shared: Shared): object {
  return { ...clientState, [KEY]: shared };
}

/** Who is never asked anything needs no state of ours; who has a copy gets it right from the run's beginning. */
export function needsSnapshot({ shared }: AgUiState, given: unknown): boolean {
  return shared !== null || (isRecord(given) && Object.hasOwn(given, KEY));
}

export function toShared({ asks }: Pick<AgUiState, "asks">, status: Shared["status"]): Shared {
  const pending = Object.entries(asks).flatMap(([id, ask]) => {
    if (ask.kind === "tool") return [];
    const { reason, message } = toInterrupt(id, { ...ask, kind: ask.kind }, "");
    return [{ id, reason, message }];
  });
  return { status, pending };
}

/** What has changed of it since it was told in this run. */
export function tellStateDelta(teller: Teller, status: Shared["status"]): void {
  const { run, shared } = teller.state;
  if (!run || !shared) return;
  const next = toShared(teller.state, status);
  const delta = (["status", "pending"] as const)
    .filter((field) => JSON.stringify(next[field]) !== JSON.stringify(shared[field]))
    .map((field) => ({ op: "replace", path: `/${KEY}/${field}`, value: next[field] }));
  if (delta.length === 0) return;
  teller.say("STATE_DELTA", { delta });
  teller.change({ shared: next });
}
