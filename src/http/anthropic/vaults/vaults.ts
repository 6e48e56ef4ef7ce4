import { z } from "zod";
import type { Change, Document } from "../../../catalog/port.ts";
import {
  CreateVault,
  createVaultBody,
  type CredentialBody,
  toVault,
  UpdateVault,
  updateVaultBody,
  type Vault,
  type VaultBody,
} from "../../../dialects/anthropic/resources/vault.ts";
import { toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import { toList } from "../collections.ts";
import { createId } from "../ids.ts";
import * as params from "../query.ts";
import { type Labels, createOnce, removeOnce } from "../idempotency.ts";
import type { AnthropicServices, Route } from "../route.ts";
import { MAX_CREDENTIALS } from "./credentials.ts";

const ListVaults = z.object({ limit: params.limitOf(20), page: params.page, include_archived: params.flag });

export function mountVaults(route: Route, services: AnthropicServices): void {
  const { catalog, collections } = services;
  const { vaults, credentials } = collections;
  const { kind } = vaults;

  route("POST", "/vaults", { scope: "admin", body: CreateVault }, (call) => {
    const { tenant, body: input } = call;
    const create = async (labels: Labels): Promise<Vault> => {
      const body = createVaultBody(input);
      const [made] = await catalog.write(tenant, [
        { op: "create", kind, id: createId("vault"), body, labels },
      ]);
      return toVault(made as Document<VaultBody>);
    };
    return createOnce(services, call, { collection: vaults, input, create, toAnswer: toVault });
  });

  route("GET", "/vaults", { scope: "read", query: ListVaults }, async ({ tenant, query }) =>
    toList(await vaults.page(tenant, query, { archived: query.include_archived }), toVault),
  );

  route("GET", "/vaults/:id", { scope: "read" }, async ({ tenant, param }) =>
    toVault(await vaults.get(tenant, param("id"))),
  );

  route(
    "POST",
    "/vaults/:id",
    { scope: "admin", body: UpdateVault },
    async ({ tenant, body: given, param }) => {
      const updated = await vaults.update(tenant, param("id"), ({ body }) => ({
        replace: { body: updateVaultBody(body, given) },
      }));
      return toVault(updated);
    },
  );

  // A vault's credentials are archived with it, and their secrets are removed.
  route("POST", "/vaults/:id/archive", { scope: "admin" }, async ({ tenant, param }) => {
    const archived = await vaults.update(tenant, param("id"), async ({ id, body }) => {
      if (body.archived_at !== null) return undefined;
      const archived_at = toTimestamp(Date.now());
      const open = await credentials.list(tenant, { parent: id, limit: MAX_CREDENTIALS });
      const also = open.map((credential) => toArchived(credential, archived_at));
      return { replace: { body: { ...body, archived_at }, archived: true }, also };
    });
    return toVault(archived);
  });

  route("DELETE", "/vaults/:id", { scope: "admin" }, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("id"), type: "vault_deleted" }, async () => {
      const { id } = await vaults.get(tenant, param("id"));
      await catalog.write(tenant, [{ op: "remove", kind, id, children: true }]);
    }),
  );
}

function toArchived({ kind, id, revision, body }: Document<CredentialBody>, archived_at: string): Change {
  const archived = { ...body, archived_at };
  return { op: "replace", kind, id, expect: revision, body: archived, archived: true, secret: null };
}
