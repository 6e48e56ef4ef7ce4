import type { EventError } from "../../contract/index.ts";

export type RetryStatus = "retrying" | "exhausted" | "terminal";

/** What went wrong as `session.error` has it. */
export function toSessionError(
  error: Pick<EventError, "message"> & { code?: string | undefined },
  retry: RetryStatus,
  details?: unknown,
): Record<string, unknown> {
  const type = TYPES[error.code ?? ""] ?? "unknown_error";
  const said = { type, message: error.message, retry_status: { type: retry } };
  if (type.startsWith("mcp_")) return { ...said, mcp_server_name: readText(details, "server") ?? "" };
  if (type.startsWith("credential_")) {
    const [credential_id, vault_id] = ["credential_id", "vault_id"].map(
      (key) => readText(details, key) ?? "",
    );
    return { ...said, credential_id, vault_id };
  }
  if (type.startsWith("repository_"))
    return { ...said, repository_url: readText(details, "repository_url") ?? null };
  return said;
}

/** Failures beside the run: it goes on, so they are told as they come. */
export function isBesideRun(code: string | undefined): boolean {
  return RUNNER_ERROR.test(code ?? "") || /^(mcp|repository|credential)_/.test(TYPES[code ?? ""] ?? "");
}

/** What a remote runner reports. */
const RUNNER_ERROR = /^runner(_|$)/;

const TYPES: Readonly<Record<string, string>> = {
  overloaded: "model_overloaded_error",
  rate_limited: "model_rate_limited_error",
  bad_gateway: "model_request_failed_error",
  server_error: "model_request_failed_error",
  network: "model_request_failed_error",
  terminal: "model_request_failed_error",
  unauthorized: "model_request_failed_error",
  invalid_request: "model_request_failed_error",
  context_length: "compaction_limit_reached_error",
  billing: "billing_error",
  max_turns: "tool_use_limit_reached_error",
  mcp_connection_failed: "mcp_connection_failed_error",
  mcp_authentication_failed: "mcp_authentication_failed_error",
  credential_host_unreachable: "credential_host_unreachable_error",
  repository_authentication: "repository_authentication_error",
  repository_forbidden: "repository_forbidden_error",
  repository_not_found: "repository_not_found_error",
  repository_checkout: "repository_checkout_error",
  repository_clone: "repository_clone_error",
};

function readText(value: unknown, key: string): string | undefined {
  const found = (value as Record<string, unknown> | null | undefined)?.[key];
  return typeof found === "string" ? found : undefined;
}
