import { type Context, Hono, type MiddlewareHandler } from "hono";
import type { Catalog } from "../catalog/port.ts";
import { NOBODY } from "./access/access.ts";
import { admitPage } from "./access/logins.ts";
import { closeUnlisted, type RouteTable } from "./access/route-table.ts";
import { isCallback, nameRequest, toEnvelopeResponse } from "./anthropic/dialect.ts";
import type { RateLimit } from "./anthropic/mount.ts";
import type { AppEnv, Logger, ServedDialect } from "./context.ts";
import { answerUnrouted } from "./methods.ts";
import { NDJSON_SETTINGS, type NdjsonSettings, Tickets } from "./ndjson/dialect.ts";
import { toProblemResponse } from "./problem.ts";
import type { Services } from "./services.ts";
import { admitOpen } from "./universal/mount.ts";

export interface DialectOptions {
  readonly token: string | false;
  readonly logger: Logger;
  readonly catalog?: Catalog | undefined;
  readonly defaultAgent?: string | undefined;
  readonly rateLimit?: RateLimit | undefined;
  readonly ndjson?: Partial<NdjsonSettings> | undefined;
}

/** Every dialect, in the order in which prefixes are compared. Routes are loaded later, to keep the start short. */
export function createDialects(services: Services, options: DialectOptions): readonly ServedDialect[] {
  const { token, logger, catalog, defaultAgent } = options;
  const settings = { ...NDJSON_SETTINGS, ...options.ndjson };
  const tickets = new Tickets(token, settings.ticketTtlMs, services.tokens);
  return [
    {
      prefix: "/ag-ui",
      allowsAnyHeader: true,
      // Clients of AG-UI read only errors of this content type.
      toFailure: (error, c, log) => toProblemResponse(error, c, log, "application/json"),
      async mount(app) {
        const { mountAgUi } = await import("./ag-ui/mount.ts");
        mountAgUi(app, services, { catalog, logger });
        return undefined;
      },
    },
    {
      prefix: "/anthropic",
      allowsAnyHeader: true,
      takesApiKeys: true,
      ...(catalog && {
        toFailure: toEnvelopeResponse,
        // Signed by their own secret.
        admits: (c) => (isCallback(c) ? NOBODY : undefined),
        around: nameRequest,
        async mount(app) {
          const { mountAnthropic } = await import("./anthropic/mount.ts");
          mountAnthropic(app, { ...services, catalog }, options);
          return undefined;
        },
      }),
    },
    {
      prefix: "/ndjson",
      ...(catalog && {
        admits: (c) => tickets.admit(c),
        async mount(app) {
          const { mountNdjson } = await import("./ndjson/mount.ts");
          return mountNdjson(app, services, { catalog, tickets, settings, logger, defaultAgent });
        },
      }),
    },
    {
      prefix: "/docs",
      // The documentation is public.
      admits: () => NOBODY,
      async mount(app) {
        const { mountDocs } = await import("./docs/site.ts");
        mountDocs(app, services);
        return undefined;
      },
    },
    {
      prefix: "/ui",
      admits: admitPage,
      async mount(app) {
        const { mountPage } = await import("./ui/mount.ts");
        mountPage(app, services, { hasToken: token !== false });
        return undefined;
      },
    },
    // The universal dialect has every other path. The app mounts it at once: most clients need it.
    { prefix: "", admits: admitOpen },
  ] satisfies ServedDialect[];
}

/** Marks each request with its dialect. */
export function nameDialect(dialects: readonly ServedDialect[]): MiddlewareHandler<AppEnv> {
  return (c, next) => {
    const { path } = c.req;
    const dialect = dialects.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`));
    if (!dialect) return next();
    c.set("dialect", dialect);
    return dialect.around ? dialect.around(c, next) : next();
  };
}

/**
 * Mounts a dialect. The first request for it loads its code. Its routes are on an app of their own, which gets requests
 * after the checks of the main app. The returned function closes the dialect.
 */
export function mountDialect(
  app: Hono<AppEnv>,
  { prefix, mount, toFailure = toProblemResponse }: ServedDialect,
  { logger, routes }: { logger: Logger; routes: RouteTable },
): () => void {
  if (!mount) return () => {};
  const variables = new WeakMap<Request, Readonly<AppEnv["Variables"]>>();
  const open = async (): Promise<{ app: Hono<AppEnv>; close: (() => void) | undefined }> => {
    const own = new Hono<AppEnv>();
    own.onError((error, c) => toFailure(error, c, logger));
    own.notFound((c) => answerUnrouted(own, c, (error) => toFailure(error, c, logger)));
    own.use(async (c, next) => {
      const given = variables.get(c.req.raw);
      if (given) for (const name of Object.keys(given) as Variable[]) copyVariable(given, c, name);
      await next();
      // No client reads the body of a HEAD response, so the source of the body is released here.
      if (c.req.method === "HEAD") await c.res.body?.cancel();
    });
    own.use(closeUnlisted(routes));
    return { app: own, close: await mount(own) };
  };
  let opened: ReturnType<typeof open> | undefined;
  app.all(`${prefix}/*`, async (c) => {
    // After a failed load, such as for lack of file descriptors, the next request tries again.
    opened ??= open().catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    const { app: own } = await opened;
    variables.set(c.req.raw, c.var);
    return own.fetch(c.req.raw, c.env);
  });
  return () =>
    void opened?.then(
      ({ close }) => close?.(),
      () => {},
    );
}

type Variable = keyof AppEnv["Variables"];

function copyVariable<Name extends Variable>(
  from: Readonly<AppEnv["Variables"]>,
  to: Context<AppEnv>,
  name: Name,
): void {
  to.set(name, from[name]);
}
