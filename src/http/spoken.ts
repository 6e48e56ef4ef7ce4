import { type Context, Hono } from "hono";
import type { AppEnv } from "./env.ts";
import { toNotFound } from "./problem.ts";

export interface SpokenDialect {
  /** Loads the dialect's code and says how its routes are mounted. */
  load(): Promise<(app: Hono<AppEnv>) => void>;
  fail(error: unknown, c: Context<AppEnv>): Response;
}

/**
 * A dialect whose code is loaded when somebody first speaks it: a server starts without those that nobody speaks to it.
 * Its routes stand on an app of their own, behind the doors of the first.
 */
export function mountWhenSpoken(app: Hono<AppEnv>, base: string, { load, fail }: SpokenDialect): void {
  const known = new WeakMap<Request, Readonly<AppEnv["Variables"]>>();
  let opened: Promise<Hono<AppEnv>> | undefined;
  const open = async (): Promise<Hono<AppEnv>> => {
    const mount = await load();
    const dialect = new Hono<AppEnv>();
    dialect.onError(fail);
    dialect.notFound((c) => fail(toNotFound(c), c));
    dialect.use(async (c, next) => {
      for (const [name, value] of Object.entries(known.get(c.req.raw) ?? {}))
        c.set(name as never, value as never);
      await next();
      // Nobody reads the body of a HEAD, so what it holds open is let go here.
      if (c.req.method === "HEAD") await c.res.body?.cancel();
    });
    mount(dialect);
    return dialect;
  };
  app.all(`${base}/*`, async (c) => {
    // A load that failed, such as for want of descriptors, is tried again by the next request.
    opened ??= open().catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    const dialect = await opened;
    known.set(c.req.raw, c.var);
    return dialect.fetch(c.req.raw, c.env);
  });
}
