import type {
  CredentialSecrets,
  PublicAuth,
  PublicRefresh,
} from "../../dialects/anthropic/resources/credential-auth.ts";
import type { RenewedTokens } from "./credential-secrets.ts";

type OAuth = Extract<PublicAuth, { type: "mcp_oauth" }>;

interface HttpAnswer {
  readonly status_code: number;
  readonly content_type: string;
  readonly body: string;
  readonly body_truncated: boolean;
}

interface RefreshOutcome {
  readonly status: "succeeded" | "failed" | "connect_error" | "no_refresh_token";
  readonly http_response: HttpAnswer | null;
}

export interface Probed {
  readonly status: "valid" | "invalid" | "unknown";
  readonly mcp_probe: { readonly method: string; readonly http_response: HttpAnswer | null } | null;
  readonly refresh: RefreshOutcome | null;
  /** To be stored: the old ones may be worth nothing any more. */
  readonly renewed?: RenewedTokens;
}

const TIMEOUT_MS = 10_000;
const MAX_BODY = 4096;

/** Asks the MCP server itself whether it takes the token; where it does not, tries to get a new one. */
export async function probeCredential(
  auth: OAuth,
  secrets: CredentialSecrets,
  options: { signal: AbortSignal },
): Promise<Probed> {
  const scrub = toScrubber(secrets);
  if (secrets.access_token === undefined) return { status: "invalid", mcp_probe: null, refresh: null };
  const answer = await send(auth.mcp_server_url, toInitialize(secrets.access_token), scrub, options);
  if (answer === undefined) {
    return { status: "unknown", mcp_probe: { method: "initialize", http_response: null }, refresh: null };
  }
  if (answer.status_code < 300) return { status: "valid", mcp_probe: null, refresh: null };
  const mcp_probe = { method: "initialize", http_response: answer };
  if (answer.status_code !== 401 && answer.status_code !== 403) {
    return { status: "unknown", mcp_probe, refresh: null };
  }
  const { renewed, ...refresh } = await renew(auth.refresh, secrets, scrub, options);
  if (!renewed)
    return { status: refresh.status === "connect_error" ? "unknown" : "invalid", mcp_probe, refresh };
  return { status: "unknown", mcp_probe, refresh, renewed };
}

async function renew(
  refresh: PublicRefresh | null,
  secrets: CredentialSecrets,
  scrub: (text: string) => string,
  options: { signal: AbortSignal },
): Promise<RefreshOutcome & { renewed?: RenewedTokens }> {
  if (!refresh || secrets.refresh_token === undefined)
    return { status: "no_refresh_token", http_response: null };
  const request = toRefreshRequest(refresh, { ...secrets, refresh_token: secrets.refresh_token });
  let text: string | undefined;
  // The answer holds new secrets, so that only a failure of it may be shown.
  const answer = await send(refresh.token_endpoint, request, scrub, {
    ...options,
    onText: (full) => (text = full),
  });
  if (!answer) return { status: "connect_error", http_response: null };
  const renewed = answer.status_code < 300 && text !== undefined ? parseTokens(text) : undefined;
  if (renewed) return { status: "succeeded", http_response: null, renewed };
  const http_response = answer.status_code < 300 ? { ...answer, body: "" } : answer;
  return { status: "failed", http_response };
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

function toRefreshRequest(
  { client_id, scope, resource, token_endpoint_auth }: PublicRefresh,
  { refresh_token, client_secret = "" }: CredentialSecrets & { refresh_token: string },
): RequestInit {
  const form = new URLSearchParams({ grant_type: "refresh_token", refresh_token });
  if (scope) form.set("scope", scope);
  if (resource) form.set("resource", resource);
  const headers: Record<string, string> = { accept: "application/json" };
  if (token_endpoint_auth.type === "client_secret_basic") {
    const pair = [client_id, client_secret].map(encodeURIComponent).join(":");
    headers["authorization"] = `Basic ${Buffer.from(pair).toString("base64")}`;
  } else {
    form.set("client_id", client_id);
    if (token_endpoint_auth.type === "client_secret_post") form.set("client_secret", client_secret);
  }
  return { method: "POST", headers, body: form };
}

function parseTokens(text: string): RenewedTokens | undefined {
  try {
    const { access_token, refresh_token, expires_in } = JSON.parse(text) as Record<string, unknown>;
    if (typeof access_token !== "string" || access_token === "") return undefined;
    const seconds = Number(expires_in);
    return {
      access_token,
      ...(typeof refresh_token === "string" && refresh_token !== "" && { refresh_token }),
      expires_at: seconds > 0 ? new Date(Date.now() + seconds * 1000).toISOString() : null,
    };
  } catch {
    return undefined;
  }
}

/** Undefined where there was no answer. A redirect is not followed: the token is meant for this address alone. */
async function send(
  url: string,
  init: RequestInit,
  scrub: (text: string) => string,
  { signal, onText }: { signal: AbortSignal; onText?: (text: string) => void },
): Promise<HttpAnswer | undefined> {
  try {
    const until = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const response = await fetch(url, { ...init, redirect: "manual", signal: until });
    const content_type = response.headers.get("content-type") ?? "";
    const isStream = content_type.startsWith("text/event-stream");
    if (isStream) await response.body?.cancel();
    const text = isStream ? "" : await readSome(response);
    onText?.(text);
    const scrubbed = scrub(text);
    return {
      status_code: response.status,
      content_type,
      body: scrubbed.slice(0, MAX_BODY),
      body_truncated: scrubbed.length > MAX_BODY,
    };
  } catch {
    return undefined;
  }
}

async function readSome({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  // Breaking off cancels the rest.
  for await (const chunk of (body ?? []) as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > 16 * MAX_BODY) break;
  }
  return text;
}

// A server may send back what it was sent.
function toScrubber(secrets: CredentialSecrets): (text: string) => string {
  const words = Object.values(secrets).filter(
    (word): word is string => typeof word === "string" && word !== "",
  );
  return (text) => words.reduce((scrubbed, word) => scrubbed.replaceAll(word, "[redacted]"), text);
}
