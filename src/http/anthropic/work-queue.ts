import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import {
  DEFAULT_TTL_SECONDS,
  isClaimable,
  newWork,
  OPEN_STATES,
  type WorkBody,
  type WorkState,
} from "../../dialects/anthropic/resources/work.ts";
import { createId } from "./ids.ts";
import type { AnthropicServices } from "./services.ts";

const AT_ONCE = 100;
const LOOK_MS = 100;

interface Place {
  readonly session: string;
  readonly environment: string;
}

/** A worker is wanted for the session, unless one is on its way already. */
export async function queueWork(
  { catalog, shelves, locks }: AnthropicServices,
  owner: string,
  { session, environment }: Place,
): Promise<void> {
  await locks.run(`work ${session}`, async () => {
    for (const state of OPEN_STATES) {
      const [open] = await shelves.work.list(owner, { labels: { session, state }, limit: 1 });
      if (open) return;
    }
    const [id, body] = [createId("work"), newWork(session)];
    const labels = { session, state: body.state };
    await catalog.write(owner, [
      { op: "create", kind: shelves.work.kind, id, parent: environment, body, labels },
    ]);
  });
}

/** The oldest that nobody does; undefined where none comes up in the time given. */
export async function claimWork(
  services: AnthropicServices,
  owner: string,
  { environment, blockMs, reclaimMs, signal }: Claim,
): Promise<Document<WorkBody> | undefined> {
  for (const deadline = performance.now() + blockMs; ;) {
    const claimed = await claimNow(services, owner, { environment, reclaimMs });
    if (claimed || performance.now() + LOOK_MS > deadline || signal.aborted) return claimed;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

export interface Claim {
  readonly environment: string;
  readonly blockMs: number;
  /** What was given out so long ago and never acknowledged is given out again. */
  readonly reclaimMs: number;
  readonly signal: AbortSignal;
}

async function claimNow(
  { catalog, shelves }: AnthropicServices,
  owner: string,
  { environment, reclaimMs }: Pick<Claim, "environment" | "reclaimMs">,
): Promise<Document<WorkBody> | undefined> {
  const now = Date.now();
  for (const state of ["queued", "starting", "active"] as const) {
    const found = await shelves.work.list(owner, { parent: environment, labels: { state }, limit: AT_ONCE });
    for (const { id, body, revision: expect } of found) {
      if (!isClaimable(body, { now, reclaimMs })) continue;
      const claimed = { ...newWork(body.session), metadata: body.metadata, polled_at: now };
      const labels = { session: body.session, state: claimed.state };
      const { kind } = shelves.work;
      try {
        const [document] = await catalog.write(owner, [
          { op: "replace", kind, id, expect, body: claimed, labels },
        ]);
        return document as Document<WorkBody>;
      } catch (error) {
        // Another worker was faster.
        if (!(error instanceof SluiceError && error.code === "version_conflict")) throw error;
      }
    }
  }
  return undefined;
}

export function changeWork(
  { shelves }: AnthropicServices,
  owner: string,
  id: string,
  change: (body: WorkBody) => Partial<WorkBody> | undefined,
): Promise<Document<WorkBody>> {
  return shelves.work.update(owner, id, ({ body }) => {
    const changed = change(body);
    if (!changed) return undefined;
    const next = { ...body, ...changed };
    return { replace: { body: next, labels: { session: next.session, state: next.state } } };
  });
}

export const NO_HEARTBEAT = "NO_HEARTBEAT";

export interface Beat {
  readonly ttlSeconds?: number;
  /** The last one that the worker knows of. */
  readonly expected?: string | undefined;
  /** Its answer was lost: then it knows of the one before the last. */
  readonly resent?: boolean;
}

export function beat(
  body: WorkBody,
  { ttlSeconds = DEFAULT_TTL_SECONDS, expected, resent = false }: Beat,
): Partial<WorkBody> | undefined {
  const known = body.latest_heartbeat_at ?? NO_HEARTBEAT;
  const before = resent && expected === body.heartbeat_before ? expected : undefined;
  if (expected !== undefined && expected !== known && before === undefined) {
    const detail = `The last heartbeat was ${known}, and not ${expected}: another worker has the lease.`;
    throw new SluiceError("precondition_failed", detail, { errorCode: "heartbeat_precondition_failed" });
  }
  if (body.state === "stopping" || body.state === "stopped") return undefined;
  // Two beats of one millisecond are two.
  const now = Math.max(Date.now(), Date.parse(body.latest_heartbeat_at ?? "1970-01-01T00:00:00Z") + 1);
  const latest_heartbeat_at = toTimestamp(now);
  const state: WorkState = "active";
  return {
    state,
    latest_heartbeat_at,
    heartbeat_before: before ?? known,
    started_at: body.started_at ?? latest_heartbeat_at,
    lease_until: now + ttlSeconds * 1000,
  };
}
