import type { Context } from "hono";
import { SluiceError } from "../../../contract/index.ts";
import { patchMetadata, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import { DEFAULT_TTL_SECONDS, toWork } from "../../../dialects/anthropic/resources/work.ts";
import { givenTokens } from "../../auth.ts";
import type { AppEnv } from "../../context.ts";
import { toList } from "../collections.ts";
import { isResend } from "../idempotency.ts";
import { workOperations } from "../operations/work.ts";
import type { Route, SharedServices, TenantScope } from "../route.ts";
import { Pollers } from "./pollers.ts";
import { beat, changeWork, claimWork, NO_HEARTBEAT, queueWork } from "./queue.ts";

const MAX_COUNTED = 1000;

/** The work queue of self-hosted environments: workers of the client claim sessions from it. */
export function mountWork(route: Route, services: SharedServices): void {
  const { collections } = services;
  const pollers = new Pollers();

  route(workOperations.anthropicPollWork, async ({ c, scope, tenant, query, param }) => {
    const { id: environment } = await collections.environments.get(tenant, param("id"));
    pollers.note(environment, c.req.header("anthropic-worker-id") ?? "", Date.now());
    const work = await claimWork(scope, {
      environment,
      blockMs: query.block_ms ?? 0,
      reclaimMs: query.reclaim_older_than_ms ?? 5000,
      signal: c.req.raw.signal,
    });
    return c.json(work ? toWork(work, toSecret(c)) : null);
  });

  route(workOperations.anthropicGetWorkStats, async ({ tenant, param }) => {
    const { id: environment } = await collections.environments.get(tenant, param("id"));
    const queued = await collections.work.list(tenant, {
      parent: environment,
      labels: { state: "queued" },
      limit: MAX_COUNTED,
    });
    const waiting = queued.filter(({ body }) => body.polled_at === null);
    const oldest = waiting[0];
    return {
      type: "work_queue_stats",
      depth: waiting.length,
      pending: queued.length - waiting.length,
      oldest_queued_at: oldest ? toTimestamp(oldest.createdAt) : null,
      workers_polling: pollers.count(environment, Date.now()),
    };
  });

  route(workOperations.anthropicListWork, async ({ tenant, query, param }) => {
    const { id: parent } = await collections.environments.get(tenant, param("id"));
    return toList(await collections.work.page(tenant, query, { parent }), (work) => toWork(work));
  });

  route(workOperations.anthropicGetWork, async ({ scope, param }) => toWork(await findWork(scope, param)));

  route(workOperations.anthropicUpdateWork, async ({ scope, body: given, param }) => {
    const { id } = await findWork(scope, param);
    const change = ({ metadata }: { metadata: Record<string, string> }) => ({
      metadata: patchMetadata(metadata, given.metadata),
    });
    return toWork(await changeWork(scope, id, change));
  });

  route(workOperations.anthropicAcknowledgeWork, async ({ scope, param }) => {
    const { id } = await findWork(scope, param);
    const acknowledged = await changeWork(scope, id, ({ state, acknowledged_at }) => {
      if (acknowledged_at !== null) return undefined;
      if (state !== "queued") throw conflict(`The work is ${state}, so there is nothing to acknowledge.`);
      const lease_until = Date.now() + DEFAULT_TTL_SECONDS * 1000;
      return { state: "starting", acknowledged_at: toTimestamp(Date.now()), lease_until };
    });
    return toWork(acknowledged);
  });

  route(workOperations.anthropicBeatWork, async ({ c, scope, query, param }) => {
    const { id } = await findWork(scope, param);
    const ttlSeconds = query.desired_ttl_seconds ?? DEFAULT_TTL_SECONDS;
    let lease_extended = false;
    const { body } = await changeWork(scope, id, (found) => {
      const expected = query.expected_last_heartbeat;
      const change = beat(found, { ttlSeconds, expected, resent: isResend(c) });
      lease_extended = change !== undefined;
      return change;
    });
    return {
      type: "work_heartbeat",
      last_heartbeat: body.latest_heartbeat_at ?? NO_HEARTBEAT,
      lease_extended,
      state: body.state,
      ttl_seconds: ttlSeconds,
    };
  });

  route(workOperations.anthropicStopWork, async ({ c, scope, body: given, param }) => {
    const { id, parent: environment = "" } = await findWork(scope, param);
    const stopped = await changeWork(scope, id, ({ state }) => {
      if (isResend(c) && (state === "stopped" || (state === "stopping" && given.force !== true)))
        return undefined;
      if (state === "stopped") throw conflict("The work is stopped already.");
      const now = toTimestamp(Date.now());
      const isDone = given.force === true || state === "queued" || state === "stopping";
      if (!isDone) return { state: "stopping", stop_requested_at: now };
      return { state: "stopped", stop_requested_at: now, stopped_at: now };
    });
    const { session } = stopped.body;
    // Input that arrived during the stop needs another worker.
    if (stopped.body.state === "stopped" && (await isWanted(scope, session)))
      await queueWork(scope, { session, environment });
    return toWork(stopped);
  });
}

async function findWork({ collections, tenant }: TenantScope, param: (name: string) => string) {
  const { id: environment } = await collections.environments.get(tenant, param("id"));
  const work = await collections.work.get(tenant, param("work"));
  if (work.parent === environment) return work;
  throw new SluiceError("not_found", `There is no work ${work.id} in this environment.`);
}

/** A worker gets the key that it polls with; a server without keys accepts any. */
function toSecret(c: Context<AppEnv>): string {
  const token = givenTokens(c)[0] ?? "none";
  return Buffer.from(JSON.stringify({ sessions_token: token })).toString("base64url");
}

async function isWanted({ engine }: TenantScope, session: string): Promise<boolean> {
  const info = await engine.info(session).catch(() => undefined);
  return info !== undefined && !info.ended && (info.status !== "idle" || info.queued > 0);
}

function conflict(detail: string): SluiceError {
  return new SluiceError("session_busy", detail);
}
