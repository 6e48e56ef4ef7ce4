import type { Catalog } from "../../catalog/port.ts";
import type { CredentialSecrets } from "../../dialects/anthropic/resources/credential-auth.ts";
import type { AnthropicServices } from "./services.ts";

/** The secrets of a credential, for where they are used; nothing once it is archived. */
export async function openCredential(
  catalog: Catalog,
  owner: string,
  id: string,
): Promise<CredentialSecrets> {
  const secret = await catalog.openSecret(owner, "credential", id);
  return secret === undefined ? {} : (JSON.parse(secret) as CredentialSecrets);
}

/** What a token endpoint gave in exchange for a refresh token. */
export interface RenewedTokens {
  readonly access_token: string;
  readonly refresh_token?: string;
  readonly expires_at: string | null;
}

/** The new tokens take the old ones' place; the old ones may be worth nothing any more. */
export async function keepRenewed(
  { catalog, shelves }: Pick<AnthropicServices, "catalog" | "shelves">,
  owner: string,
  id: string,
  { expires_at, ...tokens }: RenewedTokens,
): Promise<void> {
  await shelves.credentials.update(owner, id, async ({ body }) => {
    if (body.archived_at !== null || body.auth.type !== "mcp_oauth") return undefined;
    const secrets = { ...(await openCredential(catalog, owner, id)), ...tokens };
    return {
      replace: { body: { ...body, auth: { ...body.auth, expires_at } }, secret: JSON.stringify(secrets) },
    };
  });
}
