import type { Context } from "hono";
import { SluiceError, toProblem } from "../../contract/index.ts";
import type { AgUiView } from "../../dialects/ag-ui/index.ts";
import type { AppEnv } from "../env.ts";
import type { Logger } from "../logger.ts";
import { toKnownError } from "../problem.ts";
import type { StreamFormat } from "../sse.ts";

/** The same problem as everywhere, under the type that clients of this dialect read. */
export function toAgUiFailure(error: unknown, c: Context<AppEnv>, logger: Logger): Response {
  const known = toKnownError(error, c, logger);
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (known.status === 401) headers["www-authenticate"] = 'Bearer realm="sluice"';
  if (known.retryable) headers["retry-after"] = "1";
  return new Response(JSON.stringify(toProblem(known)), { status: known.status, headers });
}

/** A run that could not begin: told as a run that failed, for whoever waits for one. */
export function toFailedRun(
  format: StreamFormat,
  run: { threadId: string; runId: string; view: AgUiView },
  { code, message }: SluiceError,
): Response {
  const { threadId, runId } = run;
  const timestamp = Date.now();
  const events = [
    { type: "RUN_STARTED", threadId, runId, timestamp },
    { type: "RUN_ERROR", message, code, metadata: { tanstack: { threadId, runId } }, timestamp },
  ];
  const text = events
    .map((event) => format.framing.frame({ data: JSON.stringify(event), id: null }, undefined))
    .join("");
  return new Response(Buffer.from(text, format.framing.encoding ?? "utf8"), { headers: format.headers });
}
