import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context, Hono } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { fromSessionId } from "../../dialects/anthropic/ids.ts";
import type { Immutable } from "../../dialects/anthropic/resources/resource.ts";
import { parseWith } from "../../dialects/universal/index.ts";
import { parseBody } from "../body/json.ts";
import { type BodyLimits, readBody } from "../body/read.ts";
import type { Engine } from "../../sessions/port.ts";
import type { Access } from "../access/access.ts";
import { mountRoute, type Operation, toRoutePath } from "../operation.ts";
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

/** The services of all requests. They have no engine: that of a request reaches only the sessions of its token. */
export type SharedServices = Omit<AnthropicServices, "engine">;

/** The services for one request. */
export interface TenantScope extends SharedServices {
  readonly tenant: string;
  /** The engine as this request may use it. Documents are separate by their tenant already. */
  readonly engine: Engine;
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

/** The result of a handler, which is sent as JSON. A `Response` is sent as it is. */
export type Handled<Result> = Immutable<Result> | Response;

/** Mounts an operation of this dialect. Its result has to fit the schema of its answer. */
export type Route = <Query, Body, Result>(
  operation: Operation<Query, Body, Result>,
  handle: (call: AnthropicCall<Query, Body>) => Handled<Result> | Promise<Handled<Result>>,
) => void;

export function createRoute(app: Hono<AppEnv>, services: AnthropicServices): Route {
  return <Query, Body, Result>(
    operation: Operation<Query, Body, Result>,
    handle: (call: AnthropicCall<Query, Body>) => Handled<Result> | Promise<Handled<Result>>,
  ) => {
    const { method, path, query, body, scope, owner } = operation;
    const respond = async (c: Context<AppEnv>, engine: Engine): Promise<Response> => {
      const session = path.startsWith(`${PREFIX}/sessions/{id}`) ? c.req.param("id") : undefined;
      if (scope !== "open") await assertReached(c, { all: services.engine, own: engine, session });
      const tenant = c.get("tenant");
      const answer = await handle({
        c,
        scope: { ...services, engine, tenant },
        tenant,
        // Without a schema, the type of the query or the body is undefined.
        query: (query && parseParams(query, new URL(c.req.url).searchParams)) as Query,
        body: (body?.kind === "json"
          ? parseWith(body.schema, await readJson(c, services.limits), "body")
          : undefined) as Body,
        param: (name) => c.req.param(name) ?? "",
      });
      return isResponse(answer) ? answer : c.json(answer as object);
    };
    const row = { method, path: toRoutePath(path), scope, owner };
    mountRoute(app, services, row, respond, { hasJson: body?.kind === "json" });
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

/** Whether the token reaches the session. True for a missing session, which the route itself reports. */
async function reaches(
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

/** A missing body counts as an empty object: the SDK sends none without parameters. */
async function readJson(c: Context<AppEnv>, limits: BodyLimits): Promise<unknown> {
  const bytes = await readBody(c, limits.json);
  return bytes.length === 0 ? {} : parseBody(bytes);
}
