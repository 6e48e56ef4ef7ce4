import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import {
  CreateCredential,
  createCredential,
  type Credential,
  type CredentialBody,
  toCredential,
  UpdateCredential,
  updateCredential,
} from "../../dialects/anthropic/resources/credential.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { probeCredential } from "./credential-probe.ts";
import { refreshCredential } from "./credential-refresh.ts";
import { openCredential } from "./credential-secrets.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import * as params from "./query.ts";
import { assertReach } from "./reach.ts";
import { removedOnce } from "./resend.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { toList } from "./shelf.ts";

/** In one vault, not counting those that are archived. */
export const MAX_CREDENTIALS = 20;

const ListCredentials = z.object({
  limit: params.limitOf(20),
  page: params.page,
  include_archived: params.flag,
});

/** Secrets go in by these routes and come out by none. */
export function mountCredentials(route: Route, services: AnthropicServices): void {
  const { catalog, shelves } = services;
  const { vaults, credentials } = shelves;
  const { kind } = credentials;
  const path = "/vaults/:vault/credentials";

  const get = async (owner: string, vault: string, id: string): Promise<Document<CredentialBody>> => {
    await vaults.get(owner, vault);
    const found = await credentials.get(owner, id);
    if (found.parent === vault) return found;
    throw new SluiceError("not_found", `There is no credential ${id} in the vault ${vault}.`);
  };

  route("POST", path, { body: CreateCredential }, (call) => {
    const { owner, body: said, param } = call;
    const make = async (labels: Labels): Promise<Credential> => {
      const vault = await vaults.get(owner, param("vault"));
      if (vault.archived) throw refuse("The vault is archived, so it takes no credentials.");
      const active = await credentials.list(owner, { parent: vault.id, limit: MAX_CREDENTIALS });
      if (active.length === MAX_CREDENTIALS)
        throw refuse(`A vault has at most ${MAX_CREDENTIALS} credentials.`);
      const { body, secrets } = createCredential(vault.id, said, Date.now());
      assertReach.credential(owner, body.auth);
      const [id, secret] = [createId("credential"), JSON.stringify(secrets)];
      const [made] = await catalog.write(owner, [
        { op: "create", kind, id, parent: vault.id, body, labels, secret },
      ]);
      return toCredential(made as Document<CredentialBody>);
    };
    return madeOnce(services, call, { shelf: credentials, said, make, tell: toCredential });
  });

  route("GET", path, { query: ListCredentials }, async ({ owner, query, param }) => {
    const { id } = await vaults.get(owner, param("vault"));
    const filter = { parent: id, archived: query.include_archived };
    return toList(await credentials.page(owner, query, filter), toCredential);
  });

  route("GET", `${path}/:id`, {}, async ({ owner, param }) =>
    toCredential(await get(owner, param("vault"), param("id"))),
  );

  route("POST", `${path}/:id`, { body: UpdateCredential }, async ({ owner, body: given, param }) => {
    const { id } = await get(owner, param("vault"), param("id"));
    const updated = await credentials.update(owner, id, async ({ body: stored }) => {
      const before = await openCredential(catalog, owner, id);
      const { body, secrets } = updateCredential(stored, before, given, Date.now());
      assertReach.credential(owner, body.auth);
      return { replace: { body, secret: JSON.stringify(secrets) } };
    });
    return toCredential(updated);
  });

  route("POST", `${path}/:id/archive`, {}, async ({ owner, param }) => {
    const { id } = await get(owner, param("vault"), param("id"));
    const archived = await credentials.update(owner, id, ({ body }) => {
      if (body.archived_at !== null) return undefined;
      const archived_at = toTimestamp(Date.now());
      return { replace: { body: { ...body, archived_at }, archived: true, secret: null } };
    });
    return toCredential(archived);
  });

  route("DELETE", `${path}/:id`, {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("id"), type: "vault_credential_deleted" }, async () => {
      const { id } = await get(owner, param("vault"), param("id"));
      await catalog.write(owner, [{ op: "remove", kind, id }]);
    }),
  );

  route("POST", `${path}/:id/mcp_oauth_validate`, {}, async ({ owner, param, c }) => {
    const found = await get(owner, param("vault"), param("id"));
    const { id, body } = found;
    if (body.auth.type !== "mcp_oauth")
      throw refuse(`Only mcp_oauth credentials can be validated; this one is ${body.auth.type}.`);
    const secrets = await openCredential(catalog, owner, id);
    const verdict = await probeCredential(body.auth, secrets, {
      owner,
      signal: c.req.raw.signal,
      refresh: () => refreshCredential({ catalog, shelves }, owner, id, secrets.access_token),
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
