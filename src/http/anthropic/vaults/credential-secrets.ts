import type { Catalog } from "../../../catalog/port.ts";
import type {
  CredentialSecrets,
  PublicRefresh,
} from "../../../dialects/anthropic/resources/credential-auth.ts";
import { readChunks } from "../../body/read.ts";
import type { Collections } from "../collections.ts";
import { fetcherOf } from "../tenant-network.ts";

/** The secrets of a credential; an archived one has none. */
export async function openCredential(
  catalog: Catalog,
  tenant: string,
  id: string,
): Promise<CredentialSecrets> {
  const secret = await catalog.openSecret(tenant, "credential", id);
  return secret === undefined ? {} : (JSON.parse(secret) as CredentialSecrets);
}

/** The response of a token endpoint to a refresh token. */
interface RenewedTokens {
  readonly access_token: string;
  readonly refresh_token?: string;
  readonly expires_at: string | null;
}

/** Replaces the tokens of a credential. */
async function keepRenewed(
  { catalog, collections }: Vaults,
  tenant: string,
  id: string,
  { expires_at, ...tokens }: RenewedTokens,
): Promise<void> {
  await collections.credentials.update(tenant, id, async ({ body }) => {
    if (body.archived_at !== null || body.auth.type !== "mcp_oauth") return undefined;
    const secrets = { ...(await openCredential(catalog, tenant, id)), ...tokens };
    return {
      replace: { body: { ...body, auth: { ...body.auth, expires_at } }, secret: JSON.stringify(secrets) },
    };
  });
}

export interface Refreshed {
  readonly status: "succeeded" | "failed" | "connect_error" | "no_refresh_token";
  readonly http_response: HttpAnswer | null;
  /** The access token that is valid now. */
  readonly token?: string;
}

interface Vaults {
  readonly catalog: Catalog;
  readonly collections: Collections;
}

/** Refreshes under way, by credential. A refresh token may be valid only once, so all callers share one refresh. */
const underWay = new WeakMap<Catalog, Map<string, Promise<Refreshed>>>();

/** Replaces the access token `used` in the vault, unless it has been replaced already. */
export function refreshCredential(
  vaults: Vaults,
  tenant: string,
  id: string,
  used: string | undefined,
): Promise<Refreshed> {
  const running = underWay.get(vaults.catalog) ?? new Map<string, Promise<Refreshed>>();
  underWay.set(vaults.catalog, running);
  const known = running.get(id);
  if (known) return known;
  const refreshing = refresh(vaults, tenant, id, used).finally(() => running.delete(id));
  running.set(id, refreshing);
  return refreshing;
}

async function refresh(
  { catalog, collections }: Vaults,
  tenant: string,
  id: string,
  used: string | undefined,
): Promise<Refreshed> {
  const found = await collections.credentials.find(tenant, id);
  const secrets = await openCredential(catalog, tenant, id);
  const { access_token, refresh_token } = secrets;
  if (access_token !== undefined && access_token !== used)
    return { status: "succeeded", http_response: null, token: access_token };
  const settings = found?.body.auth.type === "mcp_oauth" ? found.body.auth.refresh : null;
  if (!settings || refresh_token === undefined) return { status: "no_refresh_token", http_response: null };
  let renewed: RenewedTokens | undefined;
  // No caller can abort this request: its response may hold the only copy of the next refresh token.
  const answer = await callWith(settings.token_endpoint, toRequest(settings, { ...secrets, refresh_token }), {
    tenant,
    secrets,
    onText: (text) => (renewed = parseTokens(text)),
  });
  if (!answer) return { status: "connect_error", http_response: null };
  if (answer.status_code < 300 && renewed) {
    await keepRenewed({ catalog, collections }, tenant, id, renewed);
    return { status: "succeeded", http_response: null, token: renewed.access_token };
  }
  // A successful response may hold new secrets, so its body is not shown.
  return { status: "failed", http_response: answer.status_code < 300 ? { ...answer, body: "" } : answer };
}

function toRequest(
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

/** The response to a request with secrets, redacted. */
export interface HttpAnswer {
  readonly status_code: number;
  readonly content_type: string;
  readonly body: string;
  readonly body_truncated: boolean;
}

interface CallOptions {
  /** Secrets of a workspace go only to public hosts. */
  readonly tenant: string;
  readonly secrets: CredentialSecrets;
  readonly signal?: AbortSignal;
  /** Gets the whole text, with its secrets. */
  readonly onText?: (text: string) => void;
}

const TIMEOUT_MS = 10_000;
const MAX_BODY = 4096;

/** Undefined without a response. Redirects are not followed: the secrets are for this address only. */
export async function callWith(
  url: string,
  init: RequestInit,
  { tenant, secrets, signal, onText }: CallOptions,
): Promise<HttpAnswer | undefined> {
  try {
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const until = signal ? AbortSignal.any([signal, timeout]) : timeout;
    const response = await fetcherOf(tenant)(url, { ...init, redirect: "manual", signal: until });
    const content_type = response.headers.get("content-type") ?? "";
    const isStream = content_type.startsWith("text/event-stream");
    if (isStream) await response.body?.cancel();
    const text = isStream ? "" : await readSome(response);
    onText?.(text);
    const scrubbed = scrub(text, secrets);
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
  // Leaving the loop cancels the rest.
  for await (const chunk of readChunks(body)) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > 16 * MAX_BODY) break;
  }
  return text;
}

// A server may echo the secrets of the request.
function scrub(text: string, secrets: CredentialSecrets): string {
  const words = Object.values(secrets).filter(
    (word): word is string => typeof word === "string" && word !== "",
  );
  return words.reduce((scrubbed, word) => scrubbed.replaceAll(word, "[redacted]"), text);
}
