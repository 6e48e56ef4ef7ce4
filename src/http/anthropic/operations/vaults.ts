import { deletedOf, listOf } from "../../../dialects/anthropic/answers/agents.ts";
import { Credential, CredentialValidation, Vault } from "../../../dialects/anthropic/answers/documents.ts";
import {
  CreateCredential,
  CreateVault,
  UpdateCredential,
  UpdateVault,
} from "../../../dialects/anthropic/resources/vault.ts";
import { defineOperations, json } from "../../operation.ts";
import { BETA, PREFIX } from "../dialect.ts";
import * as params from "../query.ts";

const shared = { tag: "anthropic: vaults", requiredHeaders: BETA } as const;

export const vaultOperations = defineOperations({
  anthropicCreateVault: {
    ...shared,
    method: "POST",
    path: `${PREFIX}/vaults`,
    scope: "admin",
    summary: "Creates a vault for credentials",
    body: { kind: "json", schema: CreateVault },
    answer: json("The vault", Vault),
    errors: ["too_large"],
  },
  anthropicListVaults: {
    ...shared,
    method: "GET",
    path: `${PREFIX}/vaults`,
    scope: "read",
    summary: "The vaults, newest first",
    query: params.ArchivableListQuery,
    answer: json("A page of vaults", listOf(Vault)),
    errors: ["invalid_cursor"],
  },
  anthropicGetVault: {
    ...shared,
    method: "GET",
    path: `${PREFIX}/vaults/{id}`,
    scope: "read",
    summary: "A vault",
    answer: json("The vault", Vault),
    errors: ["not_found"],
  },
  anthropicUpdateVault: {
    ...shared,
    method: "POST",
    path: `${PREFIX}/vaults/{id}`,
    scope: "admin",
    summary: "Changes a vault",
    body: { kind: "json", schema: UpdateVault, optional: true },
    answer: json("The changed vault", Vault),
    errors: ["not_found", "too_large"],
  },
  anthropicArchiveVault: {
    ...shared,
    method: "POST",
    path: `${PREFIX}/vaults/{id}/archive`,
    scope: "admin",
    summary: "Archives a vault and its credentials, and removes their secrets",
    answer: json("The archived vault", Vault),
    errors: ["not_found"],
  },
  anthropicDeleteVault: {
    ...shared,
    method: "DELETE",
    path: `${PREFIX}/vaults/{id}`,
    scope: "admin",
    summary: "Removes a vault with its credentials",
    answer: json("The removed vault", deletedOf("vault_deleted")),
    errors: ["not_found"],
  },
});

const CREDENTIALS = `${PREFIX}/vaults/{vault}/credentials`;

export const credentialOperations = defineOperations({
  anthropicCreateCredential: {
    ...shared,
    method: "POST",
    path: CREDENTIALS,
    scope: "admin",
    summary: "Adds a credential to a vault; no answer ever has its secrets",
    body: { kind: "json", schema: CreateCredential },
    answer: json("The credential", Credential),
    errors: ["not_found", "too_large"],
  },
  anthropicListCredentials: {
    ...shared,
    method: "GET",
    path: CREDENTIALS,
    scope: "read",
    summary: "The credentials of a vault, newest first",
    query: params.ArchivableListQuery,
    answer: json("A page of credentials", listOf(Credential)),
    errors: ["not_found", "invalid_cursor"],
  },
  anthropicGetCredential: {
    ...shared,
    method: "GET",
    path: `${CREDENTIALS}/{id}`,
    scope: "read",
    summary: "A credential without its secrets",
    answer: json("The credential", Credential),
    errors: ["not_found"],
  },
  anthropicUpdateCredential: {
    ...shared,
    method: "POST",
    path: `${CREDENTIALS}/{id}`,
    scope: "admin",
    summary: "Changes a credential or its secrets",
    body: { kind: "json", schema: UpdateCredential, optional: true },
    answer: json("The changed credential", Credential),
    errors: ["not_found", "too_large"],
  },
  anthropicArchiveCredential: {
    ...shared,
    method: "POST",
    path: `${CREDENTIALS}/{id}/archive`,
    scope: "admin",
    summary: "Archives a credential and removes its secrets",
    answer: json("The archived credential", Credential),
    errors: ["not_found"],
  },
  anthropicDeleteCredential: {
    ...shared,
    method: "DELETE",
    path: `${CREDENTIALS}/{id}`,
    scope: "admin",
    summary: "Removes a credential",
    answer: json("The removed credential", deletedOf("vault_credential_deleted")),
    errors: ["not_found"],
  },
  anthropicValidateCredential: {
    ...shared,
    method: "POST",
    path: `${CREDENTIALS}/{id}/mcp_oauth_validate`,
    scope: "admin",
    summary: "Tries the token of an mcp_oauth credential on its server",
    answer: json("The result", CredentialValidation),
    errors: ["not_found"],
  },
});
