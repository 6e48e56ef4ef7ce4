import type { Context, Hono } from "hono";
import { parseQuery, parseWith } from "../dialects/universal/index.ts";
import { type BodyLimits, readBody } from "./body.ts";
import type { AppEnv } from "./env.ts";
import { parseJson, parseText } from "./json.ts";
import type { Operation } from "./operation.ts";

/** A call as its route sees it: already parsed. */
export interface Call<Query, Body> {
  readonly c: Context<AppEnv>;
  readonly query: Query;
  readonly body: Body;
  /** A part of the path, decoded. */
  param(name: string): string;
}

export type Mount = <Query, Body>(
  operation: Operation<Query, Body>,
  handle: (call: Call<Query, Body>) => Response | Promise<Response>,
) => void;

/** Mounts operations on an app: a route only translates, what it is given fits its operation. */
export function createMount(app: Hono<AppEnv>, limits: BodyLimits): Mount {
  return (operation, handle) => {
    const path = operation.path.replaceAll(/\{(\w+)\}/g, ":$1");
    app.on(operation.method, path, async (c) => {
      const { query, body } = operation;
      return handle({
        c,
        query: (query && parseQuery(query, new URL(c.req.url).searchParams)) as never,
        body: (body?.kind === "json"
          ? parseWith(body.schema, parseJson(parseText(await readBody(c, limits.json))), "body")
          : undefined) as never,
        param: (name) => c.req.param(name) ?? "",
      });
    });
  };
}
