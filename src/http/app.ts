import { Hono } from "hono";
import { requireToken } from "./auth.ts";
import { BODY_LIMITS, type BodyLimits } from "./body.ts";
import type { Engine } from "../sessions/port.ts";
import type { AppEnv } from "./env.ts";
import type { FeedLimits } from "./feed.ts";
import { type Logger, stderrLogger } from "./logger.ts";
import { Meter } from "./meter.ts";
import { createMount } from "./mount.ts";
import { requireHost, requireOrigin } from "./origin.ts";
import { toNotFound, toProblemResponse } from "./problem.ts";
import { mountActions } from "./routes/actions.ts";
import { mountAgents } from "./routes/agents.ts";
import { mountEvents } from "./routes/events.ts";
import { mountFs } from "./routes/fs.ts";
import { mountMessages } from "./routes/messages.ts";
import { mountPorts } from "./routes/ports.ts";
import { mountSandbox } from "./routes/sandbox.ts";
import { mountServer } from "./routes/server.ts";
import { mountSessions } from "./routes/sessions.ts";
import { EventStreams } from "./sse.ts";

export interface AppOptions {
  readonly engine: Engine;
  /** What a client has to show; `false` lets everybody in who can reach the port. */
  readonly token: string | false;
  /** Names beside the loopback ones that `Host` may say, such as the one that the server is bound to; `*` for any. */
  readonly allowedHosts?: readonly string[];
  /** Origins whose pages may call; those of this server itself always may. `*` for any. */
  readonly allowedOrigins?: readonly string[];
  readonly version: string;
  readonly logger?: Logger;
  readonly limits?: Partial<BodyLimits>;
  readonly pingMs?: number;
  readonly feed?: Partial<FeedLimits>;
}

export interface App extends Hono<AppEnv> {
  /** Cuts every open event stream at once. */
  cutStreams(): void;
  /** Of use to whoever mounts another dialect here. */
  readonly streams: EventStreams;
}

export function createApp(options: AppOptions): App {
  const { engine, token, version, logger = stderrLogger } = options;
  if (token === "") throw new TypeError("An empty token protects nothing: give one, or `token: false`.");
  const meter = new Meter();
  const streams = new EventStreams({
    log: engine.log,
    meter,
    logger,
    ...(options.pingMs !== undefined && { pingMs: options.pingMs }),
    ...(options.feed && { limits: options.feed }),
  });
  const limits = { ...BODY_LIMITS, ...options.limits };
  const app = new Hono<AppEnv>();

  app.onError((error, c) => toProblemResponse(error, c, logger));
  app.notFound((c) => toProblemResponse(toNotFound(c), c, logger));
  app.use(async (c, next) => {
    await next();
    meter.count(c.res.status);
    if (c.res.headers.has("x-hono-already-sent")) return;
    for (const [name, value] of Object.entries(c.get("cors") ?? {})) c.res.headers.set(name, value);
  });
  app.use(requireHost(options.allowedHosts ?? []));
  app.use(requireOrigin(options.allowedOrigins ?? []));
  if (token !== false) app.use(requireToken(token));

  const mount = createMount(app, limits);
  const services = { engine, streams, meter, limits, version };
  mountServer(mount, services);
  mountAgents(mount, services);
  mountSessions(mount, services);
  mountMessages(mount, services);
  mountEvents(mount, services);
  mountActions(mount, services);
  mountSandbox(mount, services);
  mountFs(mount, services);
  mountPorts(app, services);
  return Object.assign(app, { cutStreams: () => streams.cutAll(), streams });
}
