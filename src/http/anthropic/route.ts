import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context, Hono } from "hono";
import type { z } from "zod";
import type { Catalog } from "../../catalog/port.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import { parseBody } from "../body/json.ts";
import { type BodyLimits, readBody } from "../body/read.ts";
import type { AppEnv } from "../context.ts";
import type { KeyedLock } from "../keyed-lock.ts";
import type { Services } from "../services.ts";
import type { Collections } from "./collections.ts";
import { PREFIX } from "./dialect.ts";
import { parseParams } from "./query.ts";

export interface AnthropicServices extends Services {
  readonly catalog: Catalog;
  readonly collections: Collections;
  readonly locks: KeyedLock;
  /** The agent of sessions whose model belongs to no known harness. */
  readonly defaultAgent?: string | undefined;
}

/** The services for the requests of one tenant. */
export interface TenantScope extends AnthropicServices {
  readonly tenant: string;
}

/** A parsed call. */
export interface AnthropicCall<Query, Body> {
  readonly c: Context<AppEnv>;
  readonly scope: TenantScope;
  readonly tenant: string;
  readonly query: Query;
  readonly body: Body;
  /** A parameter of the path, decoded. */
  param(name: string): string;
}

export interface Expected<Query, Body> {
  readonly query?: z.ZodType<Query>;
  /** A missing body counts as an empty object: the SDK sends none without parameters. */
  readonly body?: z.ZodType<Body>;
}

/** Mounts a route below `/anthropic/v1`. Its result is sent as JSON, unless it is a `Response`. */
export type Route = <Query = undefined, Body = undefined>(
  method: "GET" | "POST" | "DELETE",
  path: string,
  expected: Expected<Query, Body>,
  handle: (call: AnthropicCall<Query, Body>) => unknown,
) => void;

export function createRoute(app: Hono<AppEnv>, services: AnthropicServices): Route {
  return (method, path, expected, handle) => {
    app.on(method, PREFIX + path, async (c) => {
      const { query, body } = expected;
      const tenant = c.get("tenant");
      const answer = await handle({
        c,
        scope: { ...services, tenant },
        tenant,
        query: (query && parseParams(query, new URL(c.req.url).searchParams)) as never,
        body: (body && parseWith(body, await readJson(c, services.limits), "body")) as never,
        param: (name) => c.req.param(name) ?? "",
      });
      return isResponse(answer) ? answer : c.json(answer as object);
    });
  };
}

// RESPONSE_ALREADY_SENT is of Node's own class `Response`, and the global one is another class on this server.
function isResponse(answer: unknown): answer is Response {
  return answer === RESPONSE_ALREADY_SENT || answer instanceof Response;
}

async function readJson(c: Context<AppEnv>, limits: BodyLimits): Promise<unknown> {
  const bytes = await readBody(c, limits.json);
  return bytes.length === 0 ? {} : parseBody(bytes);
}
