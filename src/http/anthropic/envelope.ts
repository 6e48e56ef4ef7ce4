import type { Context } from "hono";
import type { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../env.ts";
import type { Logger } from "../logger.ts";
import { toKnownError } from "../problem.ts";

/** An error as clients of this dialect read it. */
export interface ErrorEnvelope {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details?: { readonly error_code: string };
  };
  readonly request_id: string;
}

export function toEnvelopeResponse(error: unknown, c: Context<AppEnv>, logger: Logger): Response {
  const known = toKnownError(error, c, logger);
  const status = toStatus(known);
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (status === 401) headers["www-authenticate"] = 'Bearer realm="sluice"';
  if (known.retryable) headers["retry-after"] = toSeconds(known.facts["retryAfterMs"]);
  // The SDK tries every 409 again, and ours stay what they are.
  if (status === 409) headers["x-should-retry"] = "false";
  return new Response(JSON.stringify(toEnvelope(known, c.get("requestId"))), { status, headers });
}

export function toEnvelope(error: SluiceError, requestId: string): ErrorEnvelope {
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

// What HTTP says more exactly than this dialect's clients know.
function toStatus({ status }: SluiceError): number {
  if (status === 410) return 400;
  return status === 501 ? 400 : status;
}

function toSeconds(ms: unknown): string {
  return String(typeof ms === "number" ? Math.max(1, Math.ceil(ms / 1000)) : 1);
}
