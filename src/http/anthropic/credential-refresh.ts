import type { Catalog } from "../../catalog/port.ts";
import type { CredentialSecrets, PublicRefresh } from "../../dialects/anthropic/resources/credential-auth.ts";
import { callWith, type HttpAnswer } from "./credential-call.ts";
import { keepRenewed, openCredential, type RenewedTokens } from "./credential-secrets.ts";
import type { Shelves } from "./shelves.ts";

export interface Refreshed {
  readonly status: "succeeded" | "failed" | "connect_error" | "no_refresh_token";
  readonly http_response: HttpAnswer | null;
  /** The access token that holds now. */
  readonly token?: string;
}

interface Vaults {
  readonly catalog: Catalog;
  readonly shelves: Shelves;
}

/** By credential: a refresh token may be good for one use, so that whoever comes meanwhile waits for the same answer. */
const underWay = new WeakMap<Catalog, Map<string, Promise<Refreshed>>>();

/** Gets a new access token in the place of `used`, unless there is one already, and keeps it in the vault. */
export function refreshCredential(
  vaults: Vaults,
  owner: string,
  id: string,
  used: string | undefined,
): Promise<Refreshed> {
  const running = underWay.get(vaults.catalog) ?? new Map<string, Promise<Refreshed>>();
  underWay.set(vaults.catalog, running);
  const known = running.get(id);
  if (known) return known;
  const refreshing = refresh(vaults, owner, id, used).finally(() => running.delete(id));
  running.set(id, refreshing);
  return refreshing;
}

async function refresh(
  { catalog, shelves }: Vaults,
  owner: string,
  id: string,
  used: string | undefined,
): Promise<Refreshed> {
  const found = await shelves.credentials.find(owner, id);
  const secrets = await openCredential(catalog, owner, id);
  const { access_token, refresh_token } = secrets;
  if (access_token !== undefined && access_token !== used)
    return { status: "succeeded", http_response: null, token: access_token };
  const settings = found?.body.auth.type === "mcp_oauth" ? found.body.auth.refresh : null;
  if (!settings || refresh_token === undefined) return { status: "no_refresh_token", http_response: null };
  let renewed: RenewedTokens | undefined;
  // Nobody's going away ends it: the answer may be the only one that names the next refresh token.
  const answer = await callWith(settings.token_endpoint, toRequest(settings, { ...secrets, refresh_token }), {
    owner,
    secrets,
    onText: (text) => (renewed = parseTokens(text)),
  });
  if (!answer) return { status: "connect_error", http_response: null };
  if (answer.status_code < 300 && renewed) {
    await keepRenewed({ catalog, shelves }, owner, id, renewed);
    return { status: "succeeded", http_response: null, token: renewed.access_token };
  }
  // An answer of success may hold new secrets, so that only a failure's is shown.
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
