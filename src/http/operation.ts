import type { Context, Hono } from "hono";
import type { z } from "zod";
import { type ErrorCode, RESERVED_SESSION_IDS, SluiceError } from "../contract/index.ts";
import { parseQuery } from "../dialects/universal/index.ts";
import type { Engine } from "../sessions/port.ts";
import type { RouteScope } from "./access/access.ts";
import { demandScope } from "./access/demand.ts";
import { guardEngine } from "./access/guarded-engine.ts";
import type { RouteRow } from "./access/route-table.ts";
import { readJson } from "./body/json.ts";
import type { AppEnv } from "./context.ts";
import { atOwner, type OwnerRule } from "./nodes/at-owner.ts";
import { findCovered } from "./methods.ts";
import type { Services } from "./services.ts";

/** One call of the API: the router mounts it, the OpenAPI document describes it. */
export interface Operation<Query = unknown, Body = unknown, Result = unknown> {
  readonly id: string;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Parameters have the form `{name}`. */
  readonly path: string;
  readonly scope: RouteScope;
  /** Of requests that only the owner of a session can serve; any node serves the others. */
  readonly owner?: OwnerRule;
  readonly tag: string;
  readonly summary: string;
  readonly query?: z.ZodType<Query>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly requiredHeaders?: Readonly<Record<string, string>>;
  readonly body?: BodySpec<Body>;
  readonly answer: Answer<Result>;
  /** Answers of another status or content type. */
  readonly otherAnswers?: readonly Answer[];
  readonly errors?: readonly ErrorCode[];
}

export type BodySpec<Body> =
  /** An optional body counts as an empty object. */
  | { readonly kind: "json"; readonly schema: z.ZodType<Body>; readonly optional?: boolean }
  /** The route reads the bytes itself, up to a limit of its own. A form has a schema of its fields. */
  | { readonly kind: "bytes"; readonly mime: string; readonly schema?: z.ZodType };

export interface Answer<Result = unknown> {
  readonly status: 200 | 204 | 302;
  readonly description: string;
  /** The schema of the whole body; in a stream, of the data of one frame. */
  readonly schema?: z.ZodType<Result>;
  readonly mime?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type QueryOf<O> = O extends { readonly query: z.ZodType<infer Query> } ? Query : undefined;
type BodyOf<O> = O extends {
  readonly body: { readonly kind: "json"; readonly schema: z.ZodType<infer Body> };
}
  ? Body
  : undefined;
type ResultOf<O> = O extends { readonly answer: Answer<infer Result> } ? Result : unknown;

/** Operations with the types of their own schemas. */
type Defined<T> = {
  readonly [Id in keyof T]: Operation<QueryOf<T[Id]>, BodyOf<T[Id]>, ResultOf<T[Id]>>;
};

/** Declares operations. The name of each one is its id. */
export function defineOperations<const T extends Record<string, Omit<Operation, "id">>>(
  operations: T,
): Defined<T> {
  const named = Object.entries(operations).map(([id, operation]) => [id, { ...operation, id }]);
  return Object.fromEntries(named) as Defined<T>;
}

export const done = (description: string, headers?: Answer["headers"]): Answer => ({
  status: 204,
  description,
  ...(headers && { headers }),
});
export const json = <Result>(description: string, schema: z.ZodType<Result>): Answer<Result> => ({
  status: 200,
  description,
  schema,
  mime: "application/json",
});
export const events = (description: string, headers?: Answer["headers"], frame?: z.ZodType): Answer => ({
  status: 200,
  description,
  mime: "text/event-stream",
  ...(headers && { headers }),
  ...(frame && { schema: frame }),
});

/** A parsed call. */
export interface Call<Query, Body> {
  readonly c: Context<AppEnv>;
  /** The engine as this request may use it. */
  readonly engine: Engine;
  readonly query: Query;
  readonly body: Body;
  /** A parameter of the path, decoded. */
  param(name: string): string;
}

export type Mount = <Query, Body>(
  operation: Operation<Query, Body>,
  handle: (call: Call<Query, Body>) => Response | void | Promise<Response | void>,
) => void;

export type RouteServices = Pick<Services, "engine" | "catalog" | "routes" | "limits" | "nodes">;

/** Mounts a handler behind the scope of its route. It gets the engine as its request may use it. */
export function mountRoute(
  app: Hono<AppEnv>,
  services: RouteServices,
  row: RouteRow,
  handle: (c: Context<AppEnv>, engine: Engine) => Response | Promise<Response>,
  { hasJson = false }: { hasJson?: boolean } = {},
): void {
  const { engine, catalog, routes, nodes } = services;
  const here = (c: Context<AppEnv>): Response | Promise<Response> =>
    handle(c, guardEngine(engine, catalog, demandScope(c, row.scope)));
  const { owner: rule } = row;
  const jsonLimit = hasJson ? services.limits.json : undefined;
  const answer = (c: Context<AppEnv>): Response | Promise<Response> => {
    if (!nodes || !rule) return here(c);
    demandScope(c, row.scope);
    return atOwner(c, { nodes, rule, catalog, jsonLimit }, async () => here(c));
  };
  const answerOwn = (c: Context<AppEnv>): Response | Promise<Response> => {
    const refusal = findCovered(app, c, row.path);
    if (!refusal) return answer(c);
    return isOldSession(c, services).then((isOld) => {
      if (isOld) return answer(c);
      throw refusal;
    });
  };
  routes.add(row);
  if (row.method === "ALL") app.all(row.path, answerOwn);
  else app.on(row.method, row.path, answerOwn);
}

/** A session of an earlier version may be called like a path of the API. It can be deleted. */
async function isOldSession(c: Context<AppEnv>, { engine }: Pick<RouteServices, "engine">): Promise<boolean> {
  const id = c.req.param("id") ?? "";
  const isDeletion = c.req.method === "DELETE" && c.req.path === `/v1/sessions/${id}`;
  return isDeletion && RESERVED_SESSION_IDS.has(id) && (await engine.log.find(id)) !== undefined;
}

/** Mounts operations on an app; queries and bodies are parsed by their schemas. Without a response, the answer is 204. */
export function createMount(app: Hono<AppEnv>, services: RouteServices): Mount {
  const { limits } = services;
  return <Query, Body>(
    operation: Operation<Query, Body>,
    handle: (call: Call<Query, Body>) => Response | void | Promise<Response | void>,
  ) => {
    const { method, scope, owner } = operation;
    const path = toRoutePath(operation.path);
    const hasJson = operation.body?.kind === "json";
    const answer = async (c: Context<AppEnv>, engine: Engine): Promise<Response> => {
      const { query, body } = operation;
      const response = await handle({
        c,
        engine,
        // Without a schema, the type of the query or the body is undefined.
        query: (query && parseQuery(query, new URL(c.req.url).searchParams)) as Query,
        body: (body?.kind === "json" ? await readJson(c, body.schema, limits.json, body) : undefined) as Body,
        param: (name) => c.req.param(name) ?? "",
      });
      return response ?? c.body(null, 204);
    };
    mountRoute(app, services, { method, path, scope, owner }, answer, { hasJson });
  };
}

/** The path of an operation as the router writes it. */
export function toRoutePath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}

/** The header of operations that make or run something. */
export const IDEMPOTENCY = {
  "Idempotency-Key": "a resend with the same key and content does nothing and gets the same answer",
};

/** The key that makes a resend of a request a no-op. */
export function idempotencyKeyOf(c: Context<AppEnv>): string | undefined {
  const key = c.req.header("idempotency-key");
  if (key !== undefined && (key === "" || key.length > 255))
    throw new SluiceError("invalid_request", "Idempotency-Key: expected 1 to 255 characters.");
  return key;
}
