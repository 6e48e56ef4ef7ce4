import type { Change, Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import type { CredentialSecrets, PublicAuth } from "../../../dialects/anthropic/resources/credential-auth.ts";
import { refuse, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  createCredential,
  createVaultBody,
  type Credential,
  type CredentialBody,
  toCredential,
  toVault,
  updateCredential,
  updateVaultBody,
  type Vault,
} from "../../../dialects/anthropic/resources/vault.ts";
import { toArchived, toList } from "../collections.ts";
import { createId } from "../dialect.ts";
import { createOnce, type Labels, removeOnce } from "../idempotency.ts";
import { credentialOperations, vaultOperations } from "../operations/vaults.ts";
import type { Route, SharedServices } from "../route.ts";
import { assertReachable } from "../tenant-network.ts";
import {
  callWith,
  type HttpAnswer,
  openCredential,
  refreshCredential,
  type Refreshed,
} from "./credential-secrets.ts";

/** How many active credentials a vault may have. */
const MAX_CREDENTIALS = 20;

export function mountVaults(route: Route, services: SharedServices): void {
  const { vaults, credentials } = services.collections;

  route(vaultOperations.anthropicCreateVault, (call) => {
    const { tenant, body: input } = call;
    const create = async (labels: Labels): Promise<Vault> => {
      const document = { id: createId("vault"), body: createVaultBody(input), labels };
      return toVault(await vaults.create(tenant, document));
    };
    return createOnce(call, { collection: vaults, input, create, toAnswer: toVault });
  });

  route(vaultOperations.anthropicListVaults, async ({ tenant, query }) =>
    toList(await vaults.page(tenant, query, { archived: query.include_archived }), toVault),
  );

  route(vaultOperations.anthropicGetVault, async ({ tenant, param }) =>
    toVault(await vaults.get(tenant, param("id"))),
  );

  route(vaultOperations.anthropicUpdateVault, async ({ tenant, body: given, param }) => {
    const updated = await vaults.update(tenant, param("id"), ({ body }) => ({
      replace: { body: updateVaultBody(body, given) },
    }));
    return toVault(updated);
  });

  // A vault's credentials are archived with it, and their secrets are removed.
  route(vaultOperations.anthropicArchiveVault, async ({ tenant, param }) => {
    const archived = await vaults.update(tenant, param("id"), async ({ id, body }) => {
      if (body.archived_at !== null) return undefined;
      const archived_at = toTimestamp(Date.now());
      const open = await credentials.list(tenant, { parent: id, limit: MAX_CREDENTIALS });
      const also = open.map((credential) => archiveCredential(credential, archived_at));
      return { replace: { body: { ...body, archived_at }, archived: true }, also };
    });
    return toVault(archived);
  });

  route(vaultOperations.anthropicDeleteVault, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("id"), type: "vault_deleted" }, async () => {
      const { id } = await vaults.get(tenant, param("id"));
      await vaults.remove(tenant, id, { children: true });
    }),
  );
}

function archiveCredential(
  { kind, id, revision, body }: Document<CredentialBody>,
  archived_at: string,
): Change {
  const archived = { ...body, archived_at };
  return { op: "replace", kind, id, expect: revision, body: archived, archived: true, secret: null };
}

/** No route returns a secret. */
export function mountCredentials(route: Route, services: SharedServices): void {
  const { catalog, collections } = services;
  const { vaults, credentials } = collections;

  const get = async (tenant: string, vault: string, id: string): Promise<Document<CredentialBody>> => {
    await vaults.get(tenant, vault);
    const found = await credentials.get(tenant, id);
    if (found.parent === vault) return found;
    throw new SluiceError("not_found", `There is no credential ${id} in the vault ${vault}.`);
  };

  route(credentialOperations.anthropicCreateCredential, (call) => {
    const { tenant, body: input, param } = call;
    const create = async (labels: Labels): Promise<Credential> => {
      const vault = await vaults.get(tenant, param("vault"));
      if (vault.archived) throw refuse("The vault is archived, so it takes no credentials.");
      const active = await credentials.list(tenant, { parent: vault.id, limit: MAX_CREDENTIALS });
      if (active.length === MAX_CREDENTIALS)
        throw refuse(`A vault has at most ${MAX_CREDENTIALS} credentials.`);
      const { body, secrets } = createCredential(vault.id, input, Date.now());
      assertReachable.credential(tenant, body.auth);
      const [id, secret] = [createId("credential"), JSON.stringify(secrets)];
      return toCredential(await credentials.create(tenant, { id, parent: vault.id, body, labels, secret }));
    };
    return createOnce(call, { collection: credentials, input, create, toAnswer: toCredential });
  });

  route(credentialOperations.anthropicListCredentials, async ({ tenant, query, param }) => {
    const { id } = await vaults.get(tenant, param("vault"));
    const filter = { parent: id, archived: query.include_archived };
    return toList(await credentials.page(tenant, query, filter), toCredential);
  });

  route(credentialOperations.anthropicGetCredential, async ({ tenant, param }) =>
    toCredential(await get(tenant, param("vault"), param("id"))),
  );

  route(credentialOperations.anthropicUpdateCredential, async ({ tenant, body: given, param }) => {
    const { id } = await get(tenant, param("vault"), param("id"));
    const updated = await credentials.update(tenant, id, async ({ body: stored }) => {
      const before = await openCredential(catalog, tenant, id);
      const { body, secrets } = updateCredential(stored, before, given, Date.now());
      assertReachable.credential(tenant, body.auth);
      return { replace: { body, secret: JSON.stringify(secrets) } };
    });
    return toCredential(updated);
  });

  route(credentialOperations.anthropicArchiveCredential, async ({ tenant, param }) => {
    const { id } = await get(tenant, param("vault"), param("id"));
    const archived = await credentials.update(tenant, id, ({ body }) => toArchived(body, { secret: null }));
    return toCredential(archived);
  });

  route(credentialOperations.anthropicDeleteCredential, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("id"), type: "vault_credential_deleted" }, async () => {
      const { id } = await get(tenant, param("vault"), param("id"));
      await credentials.remove(tenant, id);
    }),
  );

  route(credentialOperations.anthropicValidateCredential, async ({ tenant, param, c }) => {
    const found = await get(tenant, param("vault"), param("id"));
    const { id, body } = found;
    if (body.auth.type !== "mcp_oauth")
      throw refuse(`Only mcp_oauth credentials can be validated; this one is ${body.auth.type}.`);
    const secrets = await openCredential(catalog, tenant, id);
    const verdict = await probeCredential(body.auth, secrets, {
      tenant,
      signal: c.req.raw.signal,
      refresh: () => refreshCredential({ catalog, collections }, tenant, id, secrets.access_token),
    });
    const validated_at = toTimestamp(Date.now());
    return {
      type: "vault_credential_validation",
      credential_id: id,
      vault_id: body.vault_id,
      has_refresh_token: secrets.refresh_token !== undefined,
      ...verdict,
      validated_at,
    };
  });
}

type OAuth = Extract<PublicAuth, { type: "mcp_oauth" }>;

interface Probed {
  readonly status: "valid" | "invalid" | "unknown";
  readonly mcp_probe: { readonly method: string; readonly http_response: HttpAnswer | null } | null;
  readonly refresh: Omit<Refreshed, "token"> | null;
}

interface ProbeOptions {
  readonly tenant: string;
  readonly signal: AbortSignal;
  refresh(): Promise<Refreshed>;
}

/** Tries the token on the MCP server. If it is refused, tries to get a new one. */
async function probeCredential(
  { mcp_server_url }: OAuth,
  secrets: CredentialSecrets,
  { tenant, signal, refresh }: ProbeOptions,
): Promise<Probed> {
  if (secrets.access_token === undefined) return { status: "invalid", mcp_probe: null, refresh: null };
  const answer = await callWith(mcp_server_url, toInitialize(secrets.access_token), {
    tenant,
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
  const mayBeValid = token !== undefined || outcome.status === "connect_error";
  return { status: mayBeValid ? "unknown" : "invalid", mcp_probe, refresh: outcome };
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
