import type { Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import { toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  DEFAULT_TTL_SECONDS,
  isClaimable,
  newWork,
  OPEN_STATES,
  type WorkBody,
  type WorkState,
} from "../../../dialects/anthropic/resources/work.ts";
import { createId } from "../dialect.ts";
import type { TenantScope } from "../route.ts";

const MAX_LISTED = 100;
const POLL_MS = 100;

interface Job {
  readonly session: string;
  readonly environment: string;
}

/** Queues work for a session, unless some is open already. */
export async function queueWork(
  { collections, locks, tenant }: TenantScope,
  { session, environment }: Job,
): Promise<void> {
  await locks.run(`work ${session}`, async () => {
    for (const state of OPEN_STATES) {
      const [open] = await collections.work.list(tenant, { labels: { session, state }, limit: 1 });
      if (open) return;
    }
    const [id, body] = [createId("work"), newWork(session)];
    const labels = { session, state: body.state };
    await collections.work.create(tenant, { id, parent: environment, body, labels });
  });
}

/** Claims the oldest open work; undefined if there is none in time. */
export async function claimWork(
  scope: TenantScope,
  { environment, blockMs, reclaimMs, signal }: Claim,
): Promise<Document<WorkBody> | undefined> {
  for (const deadline = performance.now() + blockMs; ;) {
    const claimed = await claimNow(scope, { environment, reclaimMs });
    if (claimed || performance.now() + POLL_MS > deadline || signal.aborted) return claimed;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export interface Claim {
  readonly environment: string;
  readonly blockMs: number;
  /** The time after which claimed work without an acknowledgement can be claimed again. */
  readonly reclaimMs: number;
  readonly signal: AbortSignal;
}

async function claimNow(
  { catalog, collections, tenant }: TenantScope,
  { environment, reclaimMs }: Pick<Claim, "environment" | "reclaimMs">,
): Promise<Document<WorkBody> | undefined> {
  const now = Date.now();
  for (const state of ["queued", "starting", "active"] as const) {
    const found = await collections.work.list(tenant, {
      parent: environment,
      labels: { state },
      limit: MAX_LISTED,
    });
    for (const { id, body, revision: expect } of found) {
      if (!isClaimable(body, { now, reclaimMs })) continue;
      const claimed = { ...newWork(body.session), metadata: body.metadata, polled_at: now };
      const labels = { session: body.session, state: claimed.state };
      const { kind } = collections.work;
      try {
        const [document] = await catalog.write(tenant, [
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
  { collections, tenant }: TenantScope,
  id: string,
  change: (body: WorkBody) => Partial<WorkBody> | undefined,
): Promise<Document<WorkBody>> {
  return collections.work.update(tenant, id, ({ body }) => {
    const changed = change(body);
    if (!changed) return undefined;
    const next = { ...body, ...changed };
    return { replace: { body: next, labels: { session: next.session, state: next.state } } };
  });
}

export const NO_HEARTBEAT = "NO_HEARTBEAT";

export interface Beat {
  readonly ttlSeconds?: number;
  /** The last heartbeat that the worker knows. */
  readonly expected?: string | undefined;
  /** A resend knows the heartbeat before the last one. */
  readonly resent?: boolean;
}

/** The change of a heartbeat; undefined for work that stops. Fails for a worker that does not know the last heartbeat. */
export function beat(
  body: WorkBody,
  { ttlSeconds = DEFAULT_TTL_SECONDS, expected, resent = false }: Beat,
): Partial<WorkBody> | undefined {
  const last = body.latest_heartbeat_at ?? NO_HEARTBEAT;
  // The first try of a resent heartbeat may have been counted, and only its answer lost.
  const isCounted = resent && expected !== undefined && expected === body.heartbeat_before;
  if (expected !== undefined && expected !== last && !isCounted) {
    const detail = `The last heartbeat was ${last}, and not ${expected}: another worker has the lease.`;
    throw new SluiceError("precondition_failed", detail, { errorCode: "heartbeat_precondition_failed" });
  }
  if (body.state === "stopping" || body.state === "stopped") return undefined;
  // Two heartbeats in one millisecond get different times.
  const now = Math.max(Date.now(), Date.parse(body.latest_heartbeat_at ?? "1970-01-01T00:00:00Z") + 1);
  const latest_heartbeat_at = toTimestamp(now);
  const state: WorkState = "active";
  return {
    state,
    latest_heartbeat_at,
    heartbeat_before: isCounted ? expected : last,
    started_at: body.started_at ?? latest_heartbeat_at,
    lease_until: now + ttlSeconds * 1000,
  };
}
