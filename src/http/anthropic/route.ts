import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context, Hono } from "hono";
import type { z } from "zod";
import type { Catalog } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { fromSessionId } from "../../dialects/anthropic/ids.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import { parseBody } from "../body/json.ts";
import { type BodyLimits, readBody } from "../body/read.ts";
import type { Engine } from "../../sessions/port.ts";
import type { Access, RouteScope } from "../access/access.ts";
import { mountRoute } from "../operation.ts";
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
  /** The engine as this request may use it. Documents are separate by their tenant already. */
  readonly engine: Engine;
  readonly query: Query;
  readonly body: Body;
  /** A parameter of the path, decoded. */
  param(name: string): string;
}

export interface Expected<Query, Body> {
  readonly scope: RouteScope;
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
    const { query, body, scope } = expected;
    mountRoute(app, services, { method, path: PREFIX + path, scope }, async (c, engine) => {
      const session = path.startsWith("/sessions/:id") ? c.req.param("id") : undefined;
      if (scope !== "open") await assertReached(c, { all: services.engine, own: engine, session });
      const tenant = c.get("tenant");
      const answer = await handle({
        c,
        scope: { ...services, tenant },
        tenant,
        engine,
        query: (query && parseParams(query, new URL(c.req.url).searchParams)) as never,
        body: (body && parseWith(body, await readJson(c, services.limits), "body")) as never,
        param: (name) => c.req.param(name) ?? "",
      });
      return isResponse(answer) ? answer : c.json(answer as object);
    });
  };
}

/**
 * Fails for a session that the token does not reach. Documents are found by their tenant; sessions of other dialects have
 * none, and a token of one session reaches nothing else.
 */
async function assertReached(
  c: Context<AppEnv>,
  { all, own, session }: { all: Engine; own: Engine; session: string | undefined },
): Promise<void> {
  const access = c.get("access");
  if (access.isOperator) return;
  if (session === undefined) {
    if (access.session === undefined) return;
    const detail = `This token reaches the session ${access.session} alone, and ${c.req.path} is not a part of it.`;
    throw new SluiceError("permission_denied", detail);
  }
  if (!(await reaches(access, { all, own, session })))
    throw new SluiceError("session_not_found", `There is no session ${session}.`);
}

/** Whether a session is the token's own, or does not exist: then the route says so itself. */
export async function reaches(
  access: Access,
  { all, own, session }: { all: Engine; own: Engine; session: string },
): Promise<boolean> {
  const ids = fromSessionId(session);
  if (access.session !== undefined && !ids.includes(access.session)) return false;
  for (const id of ids) if ((await all.log.find(id)) && !(await own.log.find(id))) return false;
  return true;
}

// RESPONSE_ALREADY_SENT is of Node's own class `Response`, and the global one is another class on this server.
function isResponse(answer: unknown): answer is Response {
  return answer === RESPONSE_ALREADY_SENT || answer instanceof Response;
}

async function readJson(c: Context<AppEnv>, limits: BodyLimits): Promise<unknown> {
  const bytes = await readBody(c, limits.json);
  return bytes.length === 0 ? {} : parseBody(bytes);
}
