import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context, Hono } from "hono";
import type { z } from "zod";
import { parseWith } from "../../dialects/universal/index.ts";
import { type BodyLimits, readBody } from "../body.ts";
import type { AppEnv } from "../env.ts";
import { parseJson, parseText } from "../json.ts";
import { PREFIX } from "./path.ts";
import { parseParams } from "./query.ts";

/** A call as its route sees it: already parsed. */
export interface AnthropicCall<Query, Body> {
  readonly c: Context<AppEnv>;
  readonly owner: string;
  readonly query: Query;
  readonly body: Body;
  /** A part of the path, decoded. */
  param(name: string): string;
}

export interface Expected<Query, Body> {
  readonly query?: z.ZodType<Query>;
  /** No body at all counts as an empty object: the SDK sends none where there are no parameters. */
  readonly body?: z.ZodType<Body>;
}

/** Mounts a route below `/anthropic/v1`; what it gives is answered as JSON, but for a `Response`. */
export type Route = <Query = undefined, Body = undefined>(
  method: "GET" | "POST" | "DELETE",
  path: string,
  expected: Expected<Query, Body>,
  handle: (call: AnthropicCall<Query, Body>) => unknown,
) => void;

export function createRoute(app: Hono<AppEnv>, limits: BodyLimits): Route {
  return (method, path, expected, handle) => {
    app.on(method, PREFIX + path, async (c) => {
      const { query, body } = expected;
      const answer = await handle({
        c,
        owner: c.get("owner"),
        query: (query && parseParams(query, new URL(c.req.url).searchParams)) as never,
        body: (body && parseWith(body, await readJson(c, limits), "body")) as never,
        param: (name) => c.req.param(name) ?? "",
      });
      return isResponse(answer) ? answer : c.json(answer as object);
    });
  };
}

// A stream's answer is of the class that stood for `Response` before the server put its own there.
function isResponse(answer: unknown): answer is Response {
  return answer === RESPONSE_ALREADY_SENT || answer instanceof Response;
}

async function readJson(c: Context<AppEnv>, limits: BodyLimits): Promise<unknown> {
  const bytes = await readBody(c, limits.json);
  return bytes.length === 0 ? {} : parseJson(parseText(bytes));
}
