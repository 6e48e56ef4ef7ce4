import { randomBytes } from "node:crypto";
import type { Catalog, Change, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { sha256 } from "../digest.ts";
import { DEFAULT_TENANT } from "../access/access.ts";
import { KIND, type PasswordBody, toDocumentId } from "./documents.ts";

const SWEEP_LIMIT = 100;

/** A new one-time password, and its document, which has only the hash. */
export function issuePassword({ conversation, turn, expiresAt }: PasswordBody): {
  password: string;
  change: Change;
} {
  const password = `otp_${randomBytes(32).toString("base64url")}`;
  const body: PasswordBody = { conversation, turn, expiresAt };
  const parent = toDocumentId(conversation);
  return { password, change: { op: "create", kind: KIND.password, id: sha256(password), parent, body } };
}

/** The tenant of the run that a password belongs to; the default one for an unknown password. */
export async function findTenant(catalog: Catalog, password: string | undefined): Promise<string> {
  const [tenant] = password ? await catalog.tenantsOf(KIND.password, sha256(password)) : [];
  return tenant ?? DEFAULT_TENANT;
}

/** The document of a valid password. Every other password gets the same error, which reveals no reason. */
export async function findPassword(
  catalog: Catalog,
  tenant: string,
  password: string | undefined,
  scope: { conversation?: string | undefined; turn?: string | undefined } = {},
): Promise<Document<PasswordBody>> {
  // The time of a lookup by hash reveals nothing about the password.
  const found = password && (await catalog.find(tenant, KIND.password, sha256(password)));
  const document = (found || undefined) as Document<PasswordBody> | undefined;
  const { usedAt, expiresAt = 0, conversation, turn } = document?.body ?? {};
  const isInScope =
    (scope.conversation === undefined || scope.conversation === conversation) &&
    (scope.turn === undefined || scope.turn === turn);
  if (document && isInScope && usedAt === undefined && expiresAt > Date.now()) return document;
  throw passwordRefused();
}

export function passwordRefused(): SluiceError {
  const detail =
    "The one-time password is missing, unknown, used, expired, or another run's. It is not given out again.";
  return new SluiceError("token_invalid", detail);
}

/** The change that marks the password as used. Its write fails if another request used the password meanwhile. */
export function toSpentChange({ id, revision, body }: Document<PasswordBody>): Change {
  return { op: "replace", kind: KIND.password, id, expect: revision, body: { ...body, usedAt: Date.now() } };
}

/** The changes that remove a batch of passwords that expired long ago. */
export async function findPasswordRemovals(
  catalog: Catalog,
  tenant: string,
  ttlMs: number,
): Promise<Change[]> {
  const created = { lt: Date.now() - 2 * ttlMs - 60_000 };
  const old = await catalog.list(tenant, { kind: KIND.password, created, limit: SWEEP_LIMIT });
  return old.map(({ id }) => ({ op: "remove", kind: KIND.password, id }));
}
