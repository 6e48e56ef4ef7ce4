import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { createId } from "./ids.ts";
import { isAnthropic } from "./path.ts";

/** Every answer of the dialect has a name that a client can quote; one that writes its own head takes it from `c`. */
export const nameRequest: MiddlewareHandler<AppEnv> = async (c, next) => {
  if (!isAnthropic(c.req.path)) return next();
  const id = createId("request");
  c.set("requestId", id);
  await next();
  if (!c.res.headers.has("x-hono-already-sent")) c.res.headers.set("request-id", id);
};
