import type { Hono } from "hono";
import type { AppEnv } from "../env.ts";
import { mountAgents } from "./agents.ts";
import { requireBeta } from "./beta.ts";
import { mountCallbacks } from "./callbacks.ts";
import { mountCredentials } from "./credentials.ts";
import { mountEnvironments } from "./environments.ts";
import { mountEvents } from "./events.ts";
import { mountFiles } from "./files.ts";
import { KeyedLock } from "./keyed-lock.ts";
import { PREFIX } from "./path.ts";
import { limitRate, type RateLimit } from "./rate-limit.ts";
import { createRoute, type Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { mountSessionResources } from "./session-resources.ts";
import { mountSessions } from "./sessions.ts";
import { createShelves } from "./shelves.ts";
import { mountSkills } from "./skills.ts";
import { mountThreads } from "./threads.ts";
import { mountUnsupported } from "./unsupported.ts";
import { mountVaults } from "./vaults.ts";
import { mountWork } from "./work.ts";

export interface AnthropicOptions {
  readonly rateLimit?: RateLimit | undefined;
  readonly defaultAgent?: string | undefined;
}

/** The Managed Agents dialect, behind the app's own doors and its own. */
export function mountAnthropic(
  app: Hono<AppEnv>,
  given: Omit<AnthropicServices, "shelves" | "locks">,
  { rateLimit, defaultAgent }: AnthropicOptions = {},
): void {
  const shelves = createShelves(given.catalog);
  const services: AnthropicServices = { ...given, shelves, locks: new KeyedLock(), defaultAgent };
  if (rateLimit) app.use(`${PREFIX}/*`, limitRate(rateLimit));
  app.use(`${PREFIX}/*`, requireBeta);
  const route = createRoute(app, services.limits);
  mountAnthropicResources(route, services);
  mountAnthropicSessions(route, services);
  mountUnsupported(app);
}

export function mountAnthropicResources(route: Route, services: AnthropicServices): void {
  mountAgents(route, services);
  mountEnvironments(route, services);
  mountVaults(route, services);
  mountCredentials(route, services);
  mountFiles(route, services);
  mountSkills(route, services);
}

export function mountAnthropicSessions(route: Route, services: AnthropicServices): void {
  mountSessions(route, services);
  mountEvents(route, services);
  mountThreads(route, services);
  mountSessionResources(route, services);
  mountWork(route, services);
  mountCallbacks(route, services);
}
