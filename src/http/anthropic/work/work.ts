import type { Context } from "hono";
import { z } from "zod";
import { SluiceError } from "../../../contract/index.ts";
import { patchMetadata, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  DEFAULT_TTL_SECONDS,
  StopWork,
  toWork,
  UpdateWork,
} from "../../../dialects/anthropic/resources/work.ts";
import { givenTokens } from "../../auth.ts";
import type { AppEnv } from "../../context.ts";
import { toList } from "../collections.ts";
import * as params from "../query.ts";
import { isResend } from "../idempotency.ts";
import type { AnthropicServices, Route } from "../route.ts";
import { beat, changeWork, claimWork, NO_HEARTBEAT, queueWork } from "./queue.ts";

const whole = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, "expected a whole number")
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .optional();

const Poll = z.object({ block_ms: whole(1, 999), reclaim_older_than_ms: whole(0, 86_400_000) });
const Beat = z.object({ desired_ttl_seconds: whole(1, 3600), expected_last_heartbeat: params.text });
const ListWork = z.object({ limit: params.limitOf(20), page: params.page });

const MAX_COUNTED = 1000;
const POLLING_MS = 10_000;

/** The work queue of self-hosted environments: workers of the client claim sessions from it. */
export function mountWork(route: Route, services: AnthropicServices): void {
  const { collections } = services;
  const polled = new Map<string, number>();

  const find = async (tenant: string, param: (name: string) => string) => {
    const { id: environment } = await collections.environments.get(tenant, param("id"));
    const work = await collections.work.get(tenant, param("work"));
    if (work.parent === environment) return work;
    throw new SluiceError("not_found", `There is no work ${work.id} in this environment.`);
  };

  route(
    "GET",
    "/environments/:id/work/poll",
    { scope: "control", query: Poll },
    async ({ c, tenant, query, param }) => {
      const { id: environment } = await collections.environments.get(tenant, param("id"));
      polled.set(`${environment} ${c.req.header("anthropic-worker-id") ?? ""}`, Date.now());
      const work = await claimWork(services, tenant, {
        environment,
        blockMs: query.block_ms ?? 0,
        reclaimMs: query.reclaim_older_than_ms ?? 5000,
        signal: c.req.raw.signal,
      });
      return c.json(work ? toWork(work, toSecret(c)) : null);
    },
  );

  route("GET", "/environments/:id/work/stats", { scope: "read" }, async ({ tenant, param }) => {
    const { id: environment } = await collections.environments.get(tenant, param("id"));
    const queued = await collections.work.list(tenant, {
      parent: environment,
      labels: { state: "queued" },
      limit: MAX_COUNTED,
    });
    const waiting = queued.filter(({ body }) => body.polled_at === null);
    const now = Date.now();
    for (const [key, at] of polled) if (now - at > POLLING_MS) polled.delete(key);
    const oldest = waiting[0];
    return {
      type: "work_queue_stats",
      depth: waiting.length,
      pending: queued.length - waiting.length,
      oldest_queued_at: oldest ? toTimestamp(oldest.createdAt) : null,
      workers_polling: [...polled.keys()].filter((key) => key.startsWith(`${environment} `)).length,
    };
  });

  route(
    "GET",
    "/environments/:id/work",
    { scope: "read", query: ListWork },
    async ({ tenant, query, param }) => {
      const { id: parent } = await collections.environments.get(tenant, param("id"));
      return toList(await collections.work.page(tenant, query, { parent }), (work) => toWork(work));
    },
  );

  route("GET", "/environments/:id/work/:work", { scope: "read" }, async ({ tenant, param }) =>
    toWork(await find(tenant, param)),
  );

  route(
    "POST",
    "/environments/:id/work/:work",
    { scope: "control", body: UpdateWork },
    async ({ tenant, body: given, param }) => {
      const { id } = await find(tenant, param);
      const change = ({ metadata }: { metadata: Record<string, string> }) => ({
        metadata: patchMetadata(metadata, given.metadata),
      });
      return toWork(await changeWork(services, tenant, id, change));
    },
  );

  route("POST", "/environments/:id/work/:work/ack", { scope: "control" }, async ({ tenant, param }) => {
    const { id } = await find(tenant, param);
    const acknowledged = await changeWork(services, tenant, id, ({ state, acknowledged_at }) => {
      if (acknowledged_at !== null) return undefined;
      if (state !== "queued") throw conflict(`The work is ${state}, so there is nothing to acknowledge.`);
      const lease_until = Date.now() + DEFAULT_TTL_SECONDS * 1000;
      return { state: "starting", acknowledged_at: toTimestamp(Date.now()), lease_until };
    });
    return toWork(acknowledged);
  });

  route(
    "POST",
    "/environments/:id/work/:work/heartbeat",
    { scope: "control", query: Beat },
    async ({ c, tenant, query, param }) => {
      const { id } = await find(tenant, param);
      const ttlSeconds = query.desired_ttl_seconds ?? DEFAULT_TTL_SECONDS;
      let lease_extended = false;
      const { body } = await changeWork(services, tenant, id, (found) => {
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
    },
  );

  route(
    "POST",
    "/environments/:id/work/:work/stop",
    { scope: "control", body: StopWork },
    async ({ c, tenant, body: given, param }) => {
      const { id, parent: environment = "" } = await find(tenant, param);
      const stopped = await changeWork(services, tenant, id, ({ state }) => {
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
      if (stopped.body.state === "stopped" && (await isWanted(services, session)))
        await queueWork(services, tenant, { session, environment });
      return toWork(stopped);
    },
  );
}

/** A worker gets the key that it polls with; a server without keys accepts any. */
function toSecret(c: Context<AppEnv>): string {
  const token = givenTokens(c)[0] ?? "none";
  return Buffer.from(JSON.stringify({ sessions_token: token })).toString("base64url");
}

async function isWanted({ engine }: AnthropicServices, session: string): Promise<boolean> {
  const info = await engine.info(session).catch(() => undefined);
  return info !== undefined && !info.ended && (info.status !== "idle" || info.queued > 0);
}

function conflict(detail: string): SluiceError {
  return new SluiceError("session_busy", detail);
}
