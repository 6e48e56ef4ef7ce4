import type {
  BetaManagedAgentsCredential,
  BetaManagedAgentsVault,
} from "@anthropic-ai/sdk/resources/beta/vaults";
import { z } from "zod";
import {
  CreateAuth,
  type CredentialSecrets,
  type PublicAuth,
  type SplitAuth,
  splitAuth,
  UpdateAuth,
  updateAuth,
} from "./credential-auth.ts";
import {
  type Immutable,
  Metadata,
  MetadataPatch,
  patchMetadata,
  refuse,
  type Resource,
  type Stored,
  toMetadata,
  toResource,
} from "./resource.ts";

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

export type Vault = Resource<"vault", VaultBody>;

export function toVault(stored: Stored<VaultBody>): Vault {
  return toResource("vault", stored) satisfies Immutable<BetaManagedAgentsVault>;
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

export const CreateCredential = z.object({
  auth: CreateAuth,
  display_name: z.string().max(255).nullish(),
  metadata: Metadata.nullish(),
});
export type CreateCredential = z.infer<typeof CreateCredential>;

export const UpdateCredential = z.object({
  auth: UpdateAuth.optional(),
  display_name: z.string().max(255).nullish(),
  metadata: MetadataPatch.nullish(),
});
export type UpdateCredential = z.infer<typeof UpdateCredential>;

/** The public part of a credential. */
export interface CredentialBody {
  readonly vault_id: string;
  readonly display_name: string | null;
  readonly metadata: Metadata;
  readonly auth: PublicAuth;
  readonly archived_at: string | null;
}

export type Credential = Resource<"vault_credential", CredentialBody>;

/** A credential to store: the public body, and the secrets to encrypt. */
export interface NewCredential {
  readonly body: CredentialBody;
  readonly secrets: CredentialSecrets;
}

export function toCredential(stored: Stored<CredentialBody>): Credential {
  return toResource("vault_credential", stored) satisfies Immutable<BetaManagedAgentsCredential>;
}

export function createCredential(vaultId: string, given: CreateCredential, now: number): NewCredential {
  const { auth, secrets } = splitAuth(given.auth, now);
  const display_name = given.display_name || null;
  const metadata = toMetadata(given.metadata);
  return { body: { vault_id: vaultId, display_name, metadata, auth, archived_at: null }, secrets };
}

export function updateCredential(
  stored: CredentialBody,
  secrets: CredentialSecrets,
  given: UpdateCredential,
  now: number,
): NewCredential {
  if (stored.archived_at !== null) throw refuse("The credential is archived, so it cannot be updated.");
  const before: SplitAuth = { auth: stored.auth, secrets };
  const after = given.auth ? updateAuth(before, given.auth, now) : before;
  const body: CredentialBody = {
    ...stored,
    auth: after.auth,
    display_name: given.display_name === undefined ? stored.display_name : given.display_name || null,
    metadata: patchMetadata(stored.metadata, given.metadata),
  };
  return { body, secrets: after.secrets };
}
