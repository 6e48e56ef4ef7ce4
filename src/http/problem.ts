import type { Context } from "hono";
import { z } from "zod";
import { SluiceError, toProblem } from "../contract/index.ts";
import { toInvalid } from "../dialects/universal/index.ts";
import type { AppEnv } from "./env.ts";
import type { Logger } from "./logger.ts";

/** Every failure of every route becomes one `application/problem+json`; nothing internal gets out. */
export function toProblemResponse(error: unknown, c: Context<AppEnv>, logger: Logger): Response {
  const known = toKnownError(error, c, logger);
  const headers: Record<string, string> = { "content-type": "application/problem+json" };
  if (known.status === 401) headers["www-authenticate"] = 'Bearer realm="sluice"';
  if (known.retryable) headers["retry-after"] = "1";
  return new Response(JSON.stringify(toProblem(known)), { status: known.status, headers });
}

/** What may be told of a failure, in any dialect. What may not is in the server's own log. */
export function toKnownError(error: unknown, c: Context<AppEnv>, logger: Logger): SluiceError {
  const known = toSluiceError(error);
  if (known.status < 500) return known;
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  logger({
    level: "error",
    message: known.title,
    code: known.code,
    method: c.req.method,
    path: c.req.path,
    cause,
  });
  return known;
}

export function toNotFound(c: Context<AppEnv>): SluiceError {
  const detail = `There is no ${c.req.method} ${c.req.path}. GET /openapi.json lists what there is.`;
  return new SluiceError("not_found", detail);
}

function toSluiceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  if (error instanceof z.ZodError) return toInvalid(error, "body");
  return new SluiceError("internal", "The server's log says what went wrong. It may help to try again.");
}
