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
import { Metadata, MetadataPatch, patchMetadata, toMetadata } from "./metadata.ts";
import { refuse } from "./refusal.ts";
import { type Stored, toTimes } from "./stored.ts";

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

/** Nothing secret is part of it. */
export interface CredentialBody {
  readonly vault_id: string;
  readonly display_name: string | null;
  readonly metadata: Metadata;
  readonly auth: PublicAuth;
  readonly archived_at: string | null;
}

export interface Credential extends CredentialBody {
  readonly id: string;
  readonly type: "vault_credential";
  readonly created_at: string;
  readonly updated_at: string;
}

/** What to store: the body to show, and the secrets to seal. */
export interface NewCredential {
  readonly body: CredentialBody;
  readonly secrets: CredentialSecrets;
}

export function toCredential(stored: Stored<CredentialBody>): Credential {
  return { id: stored.id, type: "vault_credential", ...stored.body, ...toTimes(stored) };
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
