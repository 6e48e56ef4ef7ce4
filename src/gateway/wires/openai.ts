import type { Usage } from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import { asCount, asObject, type Json } from "../wire.ts";

/** OpenAI counts cached tokens among those of the input; our usage keeps them apart. */
export function toUsage(counts: {
  input: unknown;
  cached: unknown;
  written: unknown;
  output: unknown;
  reasoning: unknown;
}): Usage | undefined {
  const [input, read, write] = [asCount(counts.input), asCount(counts.cached), asCount(counts.written)];
  const usage: Usage = defined({
    input_tokens: input === undefined ? undefined : Math.max(0, input - (read ?? 0) - (write ?? 0)),
    output_tokens: asCount(counts.output),
    cache_read_tokens: read,
    cache_write_tokens: write,
    reasoning_tokens: asCount(counts.reasoning),
  });
  return Object.keys(usage).length === 0 ? undefined : usage;
}

const CODES: Readonly<Record<number, readonly [type: string, code: string | null]>> = {
  400: ["invalid_request_error", null],
  401: ["invalid_request_error", "invalid_api_key"],
  403: ["invalid_request_error", "permission_denied"],
  404: ["invalid_request_error", "not_found"],
  413: ["invalid_request_error", "request_too_large"],
  429: ["requests", "rate_limit_exceeded"],
};

export function toOpenAiError(status: number, message: string): Json {
  const [type, code] = CODES[status] ?? ["server_error", "server_error"];
  return { error: { message, type, param: null, code } };
}

/** The type of an error in an answer. */
export function errorOf(event: Json): string | undefined {
  const { code, type } = asObject(event["error"]) as { code?: unknown; type?: unknown };
  const name = typeof code === "string" ? code : type;
  return typeof name === "string" && /^[\w.-]{1,100}$/.test(name) ? name : undefined;
}
