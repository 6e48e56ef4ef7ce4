import { z } from "zod";
import { Metadata, MetadataPatch, patchMetadata, toMetadata } from "./metadata.ts";
import { refuse } from "./refusal.ts";
import { type Stored, toTimes } from "./stored.ts";

const DisplayName = z.string().min(1).max(255);

export const CreateVault = z.object({ display_name: DisplayName, metadata: Metadata.nullish() });
export type CreateVault = z.infer<typeof CreateVault>;

export const UpdateVault = z.object({
  display_name: DisplayName.nullish(),
  metadata: MetadataPatch.nullish(),
});
export type UpdateVault = z.infer<typeof UpdateVault>;

export interface VaultBody {
  readonly display_name: string;
  readonly metadata: Metadata;
  readonly archived_at: string | null;
}

export interface Vault extends VaultBody {
  readonly id: string;
  readonly type: "vault";
  readonly created_at: string;
  readonly updated_at: string;
}

export function toVault(stored: Stored<VaultBody>): Vault {
  return { id: stored.id, type: "vault", ...stored.body, ...toTimes(stored) };
}

export function createVaultBody(given: CreateVault): VaultBody {
  return { display_name: given.display_name, metadata: toMetadata(given.metadata), archived_at: null };
}

export function updateVaultBody(stored: VaultBody, given: UpdateVault): VaultBody {
  if (stored.archived_at !== null) throw refuse("The vault is archived, so it cannot be updated.");
  return {
    ...stored,
    display_name: given.display_name ?? stored.display_name,
    metadata: patchMetadata(stored.metadata, given.metadata),
  };
}
