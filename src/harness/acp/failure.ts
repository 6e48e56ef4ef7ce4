import { parseOthersJson } from "../../contract/index.ts";
import { codeOfStatus, type Failure, isTransient, stopReasonOf } from "../failure.ts";
import { isRecord } from "../fields.ts";
import type { RpcError } from "../rpc.ts";

/** The failure of an ACP error, in the codes of all adapters. */
export function toFailure(error: Pick<RpcError, "code" | "message" | "data">): Failure {
  const message = messageOf(error);
  if (/max_tokens/.test(message)) {
    return { error: { code: "max_tokens", message }, stopReason: "max_tokens" };
  }
  const code = codeOf(statusOf(error, message), message, error.code);
  return { error: { code, message, retryable: isTransient(code) }, stopReason: stopReasonOf(code) };
}

/** The failure of an agent that has only a text for it. */
export function toTextFailure(text: string): Failure {
  return toFailure({ code: 0, message: text });
}

/** ACP's error code for a required login. */
const AUTH_REQUIRED = -32000;

function codeOf(status: number | undefined, message: string, rpcCode: number): string {
  if (
    /too long|context.?length|context window|maximum context|token limit|token count.{0,40}exceeds|tokens exceed/i.test(
      message,
    )
  )
    return "context_length";
  if (status === 401 || status === 403 || rpcCode === AUTH_REQUIRED) return "unauthorized";
  if (status === 402 || /billing|credit balance|insufficient.?(quota|credit)/i.test(message))
    return "billing";
  if (status === 429 || /rate.?limit|RESOURCE_EXHAUSTED/i.test(message)) return "rate_limited";
  if (/overloaded/i.test(message)) return "overloaded";
  // Some agents give a cut stream a status that no server sent.
  if (CUT.test(message) && (status === undefined || status === 500)) return "network";
  if (status !== undefined && status >= 400) return codeOfStatus(status);
  if (/authentication required|unauthori[sz]ed|api key/i.test(message)) return "unauthorized";
  if (/invalid_request/i.test(message)) return "invalid_request";
  return "internal";
}

const CUT =
  /\bterminated\b|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|socket|fetch failed|transport error|connection (error|refused|reset|closed)|network|stream (was )?(cut|closed|ended)/i;

function statusOf({ code, data }: Pick<RpcError, "code" | "data">, message: string): number | undefined {
  if (code >= 400 && code <= 599) return code;
  const given = isRecord(data) ? (data["http_status"] ?? data["status"]) : undefined;
  if (typeof given === "number") return given;
  const found =
    /(?:status|error|code|http)\W{0,4}([45]\d\d)\b/i.exec(message) ?? /\((4\d\d|5\d\d)\)/.exec(message);
  return found?.[1] === undefined ? undefined : Number(found[1]);
}

function messageOf({ message, data }: Pick<RpcError, "message" | "data">): string {
  const detail = isRecord(data) ? (data["message"] ?? data["details"] ?? data["detail"]) : data;
  const words = typeof detail === "string" && detail !== "" ? detail : message;
  return innerMessage(words) ?? words;
}

/** The message inside a provider's JSON. */
function innerMessage(text: string): string | undefined {
  const start = text.indexOf('{"error"');
  if (start < 0) return undefined;
  try {
    const value: unknown = parseOthersJson(text.slice(start, text.lastIndexOf("}") + 1));
    const error = isRecord(value) ? value["error"] : undefined;
    if (!isRecord(error) || typeof error["message"] !== "string") return undefined;
    const code = error["code"] ?? error["type"];
    const known = typeof code === "number" || typeof code === "string" ? ` (${code})` : "";
    return `${error["message"]}${known}`;
  } catch {
    return undefined;
  }
}
