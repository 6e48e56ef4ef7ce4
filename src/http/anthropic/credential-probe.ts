import type { CredentialSecrets, PublicAuth } from "../../dialects/anthropic/resources/credential-auth.ts";
import { callWith, type HttpAnswer } from "./credential-call.ts";
import type { Refreshed } from "./credential-refresh.ts";

type OAuth = Extract<PublicAuth, { type: "mcp_oauth" }>;

export interface Probed {
  readonly status: "valid" | "invalid" | "unknown";
  readonly mcp_probe: { readonly method: string; readonly http_response: HttpAnswer | null } | null;
  readonly refresh: Omit<Refreshed, "token"> | null;
}

export interface ProbeOptions {
  readonly owner: string;
  readonly signal: AbortSignal;
  /** Tries to get another access token. */
  refresh(): Promise<Refreshed>;
}

/** Asks the MCP server itself whether it takes the token; where it does not, tries to get a new one. */
export async function probeCredential(
  { mcp_server_url }: OAuth,
  secrets: CredentialSecrets,
  { owner, signal, refresh }: ProbeOptions,
): Promise<Probed> {
  if (secrets.access_token === undefined) return { status: "invalid", mcp_probe: null, refresh: null };
  const answer = await callWith(mcp_server_url, toInitialize(secrets.access_token), {
    owner,
    secrets,
    signal,
  });
  if (answer === undefined) {
    return { status: "unknown", mcp_probe: { method: "initialize", http_response: null }, refresh: null };
  }
  if (answer.status_code < 300) return { status: "valid", mcp_probe: null, refresh: null };
  const mcp_probe = { method: "initialize", http_response: answer };
  if (answer.status_code !== 401 && answer.status_code !== 403) {
    return { status: "unknown", mcp_probe, refresh: null };
  }
  const { token, ...outcome } = await refresh();
  const isOpen = token !== undefined || outcome.status === "connect_error";
  return { status: isOpen ? "unknown" : "invalid", mcp_probe, refresh: outcome };
}

function toInitialize(token: string): RequestInit {
  return {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: {
        protocolVersion: "2025-06-18",
        capabilities: {},
        clientInfo: { name: "sluice", version: "1" },
      },
    }),
  };
}
