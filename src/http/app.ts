import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Context, Hono } from "hono";
import type { Catalog } from "../catalog/port.ts";
import { toAgUiFailure } from "./ag-ui/failure.ts";
import { BASE as AG_UI, isAgUi } from "./ag-ui/path.ts";
import { isCallback } from "./anthropic/callback-signature.ts";
import { toEnvelopeResponse } from "./anthropic/envelope.ts";
import { BASE as ANTHROPIC, isAnthropic } from "./anthropic/path.ts";
import type { RateLimit } from "./anthropic/rate-limit.ts";
import { nameRequest } from "./anthropic/request-id.ts";
import type { Webhooks } from "./anthropic/webhooks/webhooks.ts";
import { assertKeys, requireToken } from "./auth.ts";
import { BODY_LIMITS, type BodyLimits } from "./body.ts";
import type { Engine } from "../sessions/port.ts";
import type { AppEnv } from "./env.ts";
import { Drafts } from "./drafts.ts";
import type { FeedLimits } from "./feed.ts";
import { type Logger, stderrLogger } from "./logger.ts";
import { Meter } from "./meter.ts";
import { createMount } from "./mount.ts";
import { mountNdjson } from "./ndjson/mount.ts";
import { NDJSON_SETTINGS, type NdjsonSettings } from "./ndjson/settings.ts";
import { Tickets } from "./ndjson/tickets.ts";
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
import { mountWhenSpoken } from "./spoken.ts";
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
  /** Where files lie while they are uploaded: a folder of the server's own. */
  readonly drafts?: string;
  readonly pingMs?: number;
  readonly feed?: Partial<FeedLimits>;
  /** Where the resources of the Anthropic dialect are kept; without it there is no `/anthropic`. */
  readonly catalog?: Catalog;
  /** Further keys of the Anthropic dialect, each with the owner whose resources alone it sees. */
  readonly workspaces?: Readonly<Record<string, string>>;
  /** What runs a session of the Anthropic dialect whose model belongs to no known agent. */
  readonly defaultAgent?: string;
  /** How often one key may call the Anthropic dialect; as often as it likes unless said. */
  readonly rateLimit?: RateLimit;
  /** Where there are webhook endpoints: what `/metrics` says of them. */
  readonly webhooks?: Pick<Webhooks, "stats">;
  /** What the NDJSON dialect does otherwise. It needs a catalog too. */
  readonly ndjson?: Partial<NdjsonSettings>;
}

export interface App extends Hono<AppEnv> {
  /** Cuts every open event stream at once. */
  cutStreams(): void;
  /** Of use to whoever mounts another dialect here. */
  readonly streams: EventStreams;
}

export function createApp(options: AppOptions): App {
  const { engine, token, version, catalog, logger = stderrLogger } = options;
  if (token === "") throw new TypeError("An empty token protects nothing: give one, or `token: false`.");
  assertKeys({ token, workspaces: options.workspaces });
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

  const fail = (error: unknown, c: Context<AppEnv>): Response => {
    if (isAgUi(c.req.path)) return toAgUiFailure(error, c, logger);
    const toResponse = catalog && isAnthropic(c.req.path) ? toEnvelopeResponse : toProblemResponse;
    return toResponse(error, c, logger);
  };
  app.onError(fail);
  app.notFound((c) => fail(toNotFound(c), c));
  app.use(async (c, next) => {
    await next();
    meter.count(c.res.status);
    // Nobody reads the body of a HEAD, so what it holds open is let go here.
    if (c.req.method === "HEAD") await c.res.body?.cancel();
    if (c.res.headers.has("x-hono-already-sent")) return;
    for (const [name, value] of Object.entries(c.get("cors") ?? {})) c.res.headers.set(name, value);
  });
  if (catalog) app.use(nameRequest);
  app.use(requireHost(options.allowedHosts ?? []));
  app.use(requireOrigin(options.allowedOrigins ?? []));
  const settings = { ...NDJSON_SETTINGS, ...options.ndjson };
  const tickets = new Tickets(token, settings.ticketTtlMs);
  app.use(
    requireToken({
      token,
      ...(options.workspaces && { workspaces: options.workspaces }),
      ...(catalog && { admits: (c) => tickets.admits(c) || isCallback(c) }),
    }),
  );

  const mount = createMount(app, limits);
  const drafts = new Drafts(options.drafts ?? join(tmpdir(), `sluice-uploads-${process.getuid?.() ?? 0}`));
  const services = { engine, streams, meter, limits, drafts, version, webhooks: options.webhooks?.stats };
  void drafts.sweep().catch((error: unknown) => {
    logger({
      level: "warn",
      message: "Uploads of a killed server could not be removed",
      error: String(error),
    });
  });
  mountServer(mount, services);
  mountAgents(mount, services);
  mountSessions(mount, services);
  mountMessages(mount, services);
  mountEvents(mount, services);
  mountActions(mount, services);
  mountSandbox(mount, services);
  mountFs(mount, services);
  mountPorts(app, services);
  mountWhenSpoken(app, AG_UI, {
    fail,
    load: async () => {
      const { mountAgUi } = await import("./ag-ui/mount.ts");
      return (dialect) => mountAgUi(dialect, services, { catalog, logger });
    },
  });
  if (catalog)
    mountWhenSpoken(app, ANTHROPIC, {
      fail,
      load: async () => {
        const { mountAnthropic } = await import("./anthropic/mount.ts");
        return (dialect) => mountAnthropic(dialect, { ...services, catalog }, options);
      },
    });
  const { defaultAgent } = options;
  const letGo = catalog
    ? mountNdjson(mount, services, { catalog, tickets, settings, logger, defaultAgent })
    : () => {};
  const cutStreams = (): void => {
    letGo();
    streams.cutAll();
  };
  return Object.assign(app, { cutStreams, streams });
}
