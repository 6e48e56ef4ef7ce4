import type { Context, MiddlewareHandler } from "hono";
import type { z } from "zod";
import type { SluiceError } from "../../contract/index.ts";
import type { ErrorEnvelope } from "../../dialects/anthropic/answers/agents.ts";
import type { AppEnv, Logger } from "../context.ts";
import { toAllowHeader, toKnownError } from "../problem.ts";

// The light part of the dialect, which is loaded with the server.

/** The paths of the dialect. A client's `baseURL` ends before `/v1`. */
export const PREFIX = "/anthropic/v1";

export const MANAGED_AGENTS_BETA = "managed-agents-2026-04-01";

/** The header of all operations but those on files and skills. */
export const BETA = { "anthropic-beta": MANAGED_AGENTS_BETA };

/** Whether a request is a report of a remote runner, which is signed and has no API key. */
export function isCallback(c: Context<AppEnv>): boolean {
  return c.req.method === "POST" && CALLBACKS.test(c.req.path);
}

export const CALLBACKS = new RegExp(`^${PREFIX}/sessions/[^/]+/callbacks$`);

/** Gives every response an id that a client can quote. Streams, which write their own head, take it from `c`. */
export const nameRequest: MiddlewareHandler<AppEnv> = async (c, next) => {
  const id = createId("request");
  c.set("requestId", id);
  await next();
  if (!c.res.headers.has("x-hono-already-sent")) c.res.headers.set("request-id", id);
};

export function toEnvelopeResponse(error: unknown, c: Context<AppEnv>, logger: Logger): Response {
  const known = toKnownError(error, c, logger);
  const status = toStatus(known);
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (status === 401) headers["www-authenticate"] = 'Bearer realm="sluice"';
  if (known.retryable) headers["retry-after"] = toSeconds(known.facts["retryAfterMs"]);
  Object.assign(headers, toAllowHeader(known));
  // The SDK retries every 409, but a retry cannot resolve ours.
  if (status === 409) headers["x-should-retry"] = "false";
  return new Response(JSON.stringify(toEnvelope(known, c.get("requestId"))), { status, headers });
}

function toEnvelope(error: SluiceError, requestId: string): z.infer<typeof ErrorEnvelope> {
  const { errorCode } = error.facts;
  return {
    type: "error",
    error: {
      type: TYPES[toStatus(error)] ?? (error.status >= 500 ? "api_error" : "invalid_request_error"),
      message: error.message,
      ...(typeof errorCode === "string" && { details: { error_code: errorCode } }),
    },
    request_id: requestId,
  };
}

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
};

function toStatus({ status }: SluiceError): number {
  return toEnvelopeStatus(status);
}

/** Clients of this dialect know neither 410 nor 501. */
export function toEnvelopeStatus(status: number): number {
  return status === 410 || status === 501 ? 400 : status;
}

function toSeconds(ms: unknown): string {
  return String(typeof ms === "number" ? Math.max(1, Math.ceil(ms / 1000)) : 1);
}

/** The id prefixes of this dialect. */
const ID_PREFIX = {
  agent: "agent",
  environment: "env",
  vault: "vlt",
  credential: "vcrd",
  file: "file",
  skill: "skill",
  skillVersion: "skillver",
  session: "sesn",
  resource: "sesrsc",
  work: "work",
  request: "req",
} as const;

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** A new, time-ordered id: nine base-36 digits of milliseconds, then about 64 random bits. */
export function createId(kind: keyof typeof ID_PREFIX, now = Date.now()): string {
  const random = crypto.getRandomValues(new Uint8Array(11));
  let suffix = "";
  for (const byte of random) suffix += ALPHABET[byte % ALPHABET.length];
  return `${ID_PREFIX[kind]}_${now.toString(36).padStart(9, "0")}${suffix}`;
}
