import type { Hono, MiddlewareHandler } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { refuse } from "../../dialects/anthropic/resources/resource.ts";
import type { AppEnv } from "../context.ts";
import { KeyedLock } from "../keyed-lock.ts";
import { methodsOf } from "../methods.ts";
import { mountRoute } from "../operation.ts";
import { createCollections } from "./collections.ts";
import { CALLBACKS, MANAGED_AGENTS_BETA, PREFIX, isCallback } from "./dialect.ts";
import { mountEvents, mountThreads } from "./events/events.ts";
import { mountAgents } from "./resources/agents.ts";
import { mountEnvironments } from "./resources/environments.ts";
import { mountFiles } from "./resources/files.ts";
import { mountSkills } from "./resources/skills.ts";
import { type AnthropicServices, createRoute } from "./route.ts";
import { mountSessionResources } from "./sessions/resources.ts";
import { mountSessions } from "./sessions/sessions.ts";
import { mountCredentials, mountVaults } from "./vaults/vaults.ts";
import { mountCallbacks } from "./work/callbacks.ts";
import { mountWork } from "./work/work.ts";

export interface AnthropicOptions {
  readonly rateLimit?: RateLimit | undefined;
  readonly defaultAgent?: string | undefined;
}

/** Mounts the Managed Agents dialect, behind the checks of the app and its own. */
export function mountAnthropic(
  app: Hono<AppEnv>,
  given: Omit<AnthropicServices, "collections" | "locks">,
  { rateLimit, defaultAgent }: AnthropicOptions = {},
): void {
  const collections = createCollections(given.catalog);
  const services: AnthropicServices = { ...given, collections, locks: new KeyedLock(), defaultAgent };
  if (rateLimit) app.use(`${PREFIX}/*`, limitRate(rateLimit));
  app.use(`${PREFIX}/*`, requireBeta(app));
  const route = createRoute(app, services);
  mountAgents(route, services);
  mountEnvironments(route, services);
  mountVaults(route, services);
  mountCredentials(route, services);
  mountFiles(route, services);
  mountSkills(route, services);
  mountSessions(route, services);
  mountEvents(route);
  mountThreads(route);
  mountSessionResources(route, services);
  mountWork(route, services);
  mountCallbacks(route, services);
  mountUnsupported(app, services);
}

export interface RateLimit {
  readonly perMinute: number;
  /** How many requests may come at once; `perMinute` if absent. */
  readonly burst?: number;
  /** The buckets that several servers share. */
  readonly shared?: SharedBuckets | undefined;
}

export interface SharedBuckets {
  /** Takes a token. Returns 0, or the milliseconds to the next one. */
  take(name: string, size: { readonly perMinute: number; readonly burst: number }): Promise<number>;
}

/**
 * A token bucket for each tenant. A refusal says when to retry. A flood ends at the server's own bucket, so the shared
 * one is asked no more often than the limit allows.
 */
function limitRate({ perMinute, burst = perMinute, shared }: RateLimit): MiddlewareHandler<AppEnv> {
  const msPerToken = 60_000 / perMinute;
  const buckets = new Map<string, { tokens: number; at: number }>();
  return async (c, next) => {
    // The node that forwarded the request has counted it.
    if (c.get("isForwarded")) return next();
    // Callbacks come without a key, so they must not use up the share of a tenant.
    const tenant = isCallback(c) ? "callbacks" : c.get("tenant");
    const time = Date.now();
    const bucket = buckets.get(tenant) ?? { tokens: burst, at: time };
    buckets.set(tenant, bucket);
    bucket.tokens = Math.min(burst, bucket.tokens + Math.max(0, time - bucket.at) / msPerToken);
    bucket.at = time;
    const refuseFor = (retryAfterMs: number): never => {
      const detail = `More than ${perMinute} requests in a minute. Wait ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`;
      throw new SluiceError("rate_limited", detail, { retryAfterMs });
    };
    if (bucket.tokens < 1) refuseFor(Math.ceil((1 - bucket.tokens) * msPerToken));
    bucket.tokens -= 1;
    // Without the database each server keeps the limit alone.
    const waitMs = (await shared?.take(tenant, { perMinute, burst }).catch(() => 0)) ?? 0;
    if (waitMs > 0) refuseFor(waitMs);
    return next();
  };
}

/** Files and skills are absent: the SDK sends no beta header for them. */
const BETA_RESOURCES = /^(sessions|agents|environments|vaults)(\/|$)/;

/** The beta header is a list, as the SDK adds to the caller's value. Any `anthropic-version` is accepted. */
function requireBeta(app: Hono<AppEnv>): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const { path, method } = c.req;
    if (!BETA_RESOURCES.test(path.slice(PREFIX.length + 1)) || CALLBACKS.test(path)) return next();
    const given = (c.req.header("anthropic-beta") ?? "").split(",").map((beta) => beta.trim().toLowerCase());
    if (given.includes(MANAGED_AGENTS_BETA)) return next();
    // A request without a route fails with the header, too.
    if (method === "OPTIONS" || !methodsOf(app, path).includes(method)) return next();
    const detail = `This is a beta: send the header "anthropic-beta: ${MANAGED_AGENTS_BETA}".`;
    throw new SluiceError("invalid_request", detail);
  };
}

const UNSUPPORTED = {
  memory_stores: "Memory stores",
  deployments: "Deployments",
  deployment_runs: "Deployments",
  dreams: "Dreams",
  outcomes: "Outcomes",
  tunnels: "Tunnels",
};

/** Refuses resources of the official service that are absent here, with an error that no SDK retries. */
function mountUnsupported(app: Hono<AppEnv>, services: AnthropicServices): void {
  for (const [group, name] of Object.entries(UNSUPPORTED)) {
    const refuseAll = (): never => {
      throw refuse(`${name} are not supported here.`);
    };
    for (const path of [`${PREFIX}/${group}`, `${PREFIX}/${group}/*`])
      mountRoute(app, services, { method: "ALL", path, scope: "read" }, refuseAll);
  }
}
