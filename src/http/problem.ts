import type { Context } from "hono";
import { z } from "zod";
import { SluiceError, toProblem } from "../contract/index.ts";
import { isFullDisk } from "../disk/full-disk.ts";
import { toInvalid } from "../dialects/universal/index.ts";
import type { AppEnv, Logger } from "./context.ts";

/** Turns any error of a route into problem details; internal errors stay in the server's log. */
export function toProblemResponse(
  error: unknown,
  c: Context<AppEnv>,
  logger: Logger,
  type = "application/problem+json",
): Response {
  const known = toKnownError(error, c, logger);
  const headers: Record<string, string> = { "content-type": type };
  if (known.status === 401) headers["www-authenticate"] = 'Bearer realm="sluice"';
  if (known.retryable) headers["retry-after"] = "1";
  Object.assign(headers, toAllowHeader(known));
  return new Response(JSON.stringify(toProblem(known)), { status: known.status, headers });
}

/** The methods of the path, which a 405 has to name. */
export function toAllowHeader({ code, facts }: SluiceError): Record<string, string> {
  const { allow } = facts;
  return code === "method_not_allowed" && Array.isArray(allow) ? { allow: allow.join(", ") } : {};
}

/** The public form of an error, for any dialect. The cause of a server error goes to the server's log. */
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
  const detail = `There is no ${c.req.method} ${c.req.path}. GET /openapi.json lists the routes.`;
  return new SluiceError("not_found", detail);
}

function toSluiceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  if (error instanceof z.ZodError) return toInvalid(error, "body");
  if (isFullDisk(error))
    return new SluiceError("storage_full", "The server's disk is full. Free some space and try again.");
  const detail = "The server's log says what went wrong. It may help to try again.";
  // Unlike damage, which the engine reports with the same code, an unexpected error may pass.
  return new SluiceError("internal", detail, {}, { retryable: true });
}
