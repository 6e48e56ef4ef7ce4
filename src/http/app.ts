import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import type { Catalog } from "../catalog/port.ts";
import type { Engine } from "../sessions/port.ts";
import { closeUnlisted, RouteTable } from "./access/route-table.ts";
import { TokenWatch } from "./access/token-watch.ts";
import { Tokens } from "./access/tokens.ts";
import type { RateLimit } from "./anthropic/mount.ts";
import { assertKeys, requireToken } from "./auth.ts";
import { Uploads } from "./body/uploads.ts";
import { BODY_LIMITS, type BodyLimits } from "./body/read.ts";
import { type AppEnv, type Logger, stderrLogger } from "./context.ts";
import { createDialects, mountDialect, nameDialect } from "./dialects.ts";
import { Meter } from "./meter.ts";
import { answerUnrouted } from "./methods.ts";
import { acceptForwarded, unlessForwarded } from "./nodes/at-owner.ts";
import type { Nodes } from "./nodes/port.ts";
import type { NdjsonSettings } from "./ndjson/dialect.ts";
import { requireHost, requireOrigin } from "./origin.ts";
import { toProblemResponse } from "./problem.ts";
import type { Services } from "./services.ts";
import type { FeedLimits } from "./stream/feed.ts";
import { EventStreams } from "./stream/sse.ts";
import { mountUniversal } from "./universal/mount.ts";
import type { OtlpExporter } from "./otlp/exporter.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

export interface AppOptions {
  readonly engine: Engine;
  /** The token of the server; `false` admits every client that can reach the port. */
  readonly token: string | false;
  /** Names that the `Host` header may have, besides those of loopback; `*` for any. */
  readonly allowedHosts?: readonly string[];
  /** Origins whose pages may call the server, besides its own; `*` for any. */
  readonly allowedOrigins?: readonly string[];
  readonly version: string;
  readonly logger?: Logger;
  readonly limits?: Partial<BodyLimits>;
  /** Holds files during their upload; no other program may write to this folder. */
  readonly uploads?: string;
  /** @deprecated Use `uploads`. */
  readonly drafts?: string;
  readonly pingMs?: number;
  readonly feed?: Partial<FeedLimits>;
  /** Stores tokens, and the resources of the Anthropic and NDJSON dialects; neither is served without it. */
  readonly catalog?: Catalog;
  /** Further keys, each with the tenant whose sessions and resources it opens. */
  readonly workspaces?: Readonly<Record<string, string>>;
  /** The agent of sessions whose model belongs to no known agent. */
  readonly defaultAgent?: string;
  /** How often one key may call the Anthropic dialect; unlimited if absent. */
  readonly rateLimit?: RateLimit;
  /** Delivers webhooks; without it, the server has none. */
  readonly webhooks?: Webhooks;
  /** Exports spans; here only for its metrics. */
  readonly otlp?: Pick<OtlpExporter, "stats">;
  readonly ndjson?: Partial<NdjsonSettings>;
  /** The servers that share the log and the catalog with this one. */
  readonly nodes?: Nodes;
}

export interface App extends Hono<AppEnv> {
  /** Ends the waits of the dialects and cuts every open event stream, for the close of the server. */
  cutStreams(): void;
  /** For dialects that an application mounts on this app itself. */
  readonly streams: EventStreams;
  /** The scope of every route; those of a dialect are there after its first request. */
  readonly scopes: RouteTable;
}

export function createApp(options: AppOptions): App {
  const { token, workspaces, logger = stderrLogger } = options;
  if (token === "") throw new TypeError("An empty token protects nothing: give one, or `token: false`.");
  assertKeys({ token, workspaces });
  const services = createServices(options, logger);
  const { meter, streams, routes } = services;
  const dialects = createDialects(services, { ...options, logger });
  const app = new Hono<AppEnv>();

  const fail = (error: unknown, c: Context<AppEnv>): Response => {
    const { toFailure = toProblemResponse } = c.get("dialect") ?? {};
    return toFailure(error, c, logger);
  };
  app.onError(fail);
  app.notFound((c) => answerUnrouted(app, c, (error) => fail(error, c)));
  app.use(async (c, next) => {
    await next();
    meter.count(c.res.status);
    // No client reads the body of a HEAD response, so the source of the body is released here.
    if (c.req.method === "HEAD") await c.res.body?.cancel();
    if (c.res.headers.has("x-hono-already-sent")) return;
    for (const [name, value] of Object.entries(c.get("cors") ?? {})) c.res.headers.set(name, value);
  });
  app.use(nameDialect(dialects));
  app.use(acceptForwarded(options.nodes));
  app.use(unlessForwarded(requireHost(options.allowedHosts ?? [])));
  app.use(unlessForwarded(requireOrigin(options.allowedOrigins ?? [])));
  app.use(unlessForwarded(requireToken({ token, workspaces }, services.tokens)));
  app.use(closeUniversal(services.routes));

  mountUniversal(app, services);
  const closers = dialects.map((dialect) => mountDialect(app, dialect, { logger, routes }));
  const cutStreams = (): void => {
    for (const close of closers) close();
    streams.cutAll();
  };
  return Object.assign(app, { cutStreams, streams, scopes: routes });
}

/** Other dialects check their routes when these are loaded. */
function closeUniversal(routes: RouteTable): MiddlewareHandler<AppEnv> {
  const close = closeUnlisted(routes);
  return (c, next) => (c.get("dialect")?.prefix ? next() : close(c, next));
}

function createServices(options: AppOptions, logger: Logger): Services {
  const { engine, version, webhooks, otlp, pingMs, feed, catalog, nodes } = options;
  const tokens = catalog && new Tokens(catalog);
  const watch = new TokenWatch(tokens);
  const meter = new Meter();
  const streams = new EventStreams({
    log: engine.log,
    meter,
    logger,
    watch,
    ...(pingMs !== undefined && { pingMs }),
    ...(feed && { limits: feed }),
  });
  const limits = { ...BODY_LIMITS, ...options.limits };
  const folder =
    options.uploads ?? options.drafts ?? join(tmpdir(), `sluice-uploads-${process.getuid?.() ?? 0}`);
  const uploads = new Uploads(folder);
  void uploads.sweep().catch((error: unknown) => {
    const message = "Uploads of a killed server could not be removed";
    logger({ level: "warn", message, error: String(error) });
  });
  const routes = new RouteTable();
  const access = { routes, watch, tokens, catalog };
  return { engine, streams, meter, logger, limits, uploads, version, ...access, webhooks, otlp, nodes };
}
