import { z } from "zod";
import type { Change, Document } from "../../catalog/port.ts";
import type { CredentialBody } from "../../dialects/anthropic/resources/credential.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import {
  CreateVault,
  createVaultBody,
  toVault,
  UpdateVault,
  updateVaultBody,
  type Vault,
  type VaultBody,
} from "../../dialects/anthropic/resources/vault.ts";
import { MAX_CREDENTIALS } from "./credentials.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import * as params from "./query.ts";
import { removedOnce } from "./resend.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { toList } from "./shelf.ts";

const ListVaults = z.object({ limit: params.limitOf(20), page: params.page, include_archived: params.flag });

export function mountVaults(route: Route, services: AnthropicServices): void {
  const { catalog, shelves } = services;
  const { vaults, credentials } = shelves;
  const { kind } = vaults;

  route("POST", "/vaults", { body: CreateVault }, (call) => {
    const { owner, body: said } = call;
    const make = async (labels: Labels): Promise<Vault> => {
      const body = createVaultBody(said);
      const [made] = await catalog.write(owner, [
        { op: "create", kind, id: createId("vault"), body, labels },
      ]);
      return toVault(made as Document<VaultBody>);
    };
    return madeOnce(services, call, { shelf: vaults, said, make, tell: toVault });
  });

  route("GET", "/vaults", { query: ListVaults }, async ({ owner, query }) =>
    toList(await vaults.page(owner, query, { archived: query.include_archived }), toVault),
  );

  route("GET", "/vaults/:id", {}, async ({ owner, param }) => toVault(await vaults.get(owner, param("id"))));

  route("POST", "/vaults/:id", { body: UpdateVault }, async ({ owner, body: given, param }) => {
    const updated = await vaults.update(owner, param("id"), ({ body }) => ({
      replace: { body: updateVaultBody(body, given) },
    }));
    return toVault(updated);
  });

  // Its credentials go with it, and with them their secrets.
  route("POST", "/vaults/:id/archive", {}, async ({ owner, param }) => {
    const archived = await vaults.update(owner, param("id"), async ({ id, body }) => {
      if (body.archived_at !== null) return undefined;
      const archived_at = toTimestamp(Date.now());
      const open = await credentials.list(owner, { parent: id, limit: MAX_CREDENTIALS });
      const also = open.map((credential) => toArchived(credential, archived_at));
      return { replace: { body: { ...body, archived_at }, archived: true }, also };
    });
    return toVault(archived);
  });

  route("DELETE", "/vaults/:id", {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("id"), type: "vault_deleted" }, async () => {
      const { id } = await vaults.get(owner, param("id"));
      await catalog.write(owner, [{ op: "remove", kind, id, children: true }]);
    }),
  );
}

function toArchived({ kind, id, revision, body }: Document<CredentialBody>, archived_at: string): Change {
  const archived = { ...body, archived_at };
  return { op: "replace", kind, id, expect: revision, body: archived, archived: true, secret: null };
}
