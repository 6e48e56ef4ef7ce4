import { createHash, randomBytes } from "node:crypto";
import type { Catalog, Change, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { KIND, type PasswordBody, toDocumentId } from "./records.ts";

const SWEPT = 100;

/** A new one-time password and the document that knows it: by its hash alone. */
export function issuePassword({ conversation, turn, expiresAt }: PasswordBody): {
  password: string;
  change: Change;
} {
  const password = `otp_${randomBytes(32).toString("base64url")}`;
  const body: PasswordBody = { conversation, turn, expiresAt };
  const parent = toDocumentId(conversation);
  return { password, change: { op: "create", kind: KIND.password, id: hashOf(password), parent, body } };
}

/** The password's document, for as long as it is good. One answer for all that are not: it tells nothing to who guesses. */
export async function findPassword(
  catalog: Catalog,
  owner: string,
  password: string | undefined,
  scope: { conversation?: string | undefined; turn?: string | undefined } = {},
): Promise<Document<PasswordBody>> {
  // Found by its hash: how long that takes says nothing about the password.
  const found = password && (await catalog.find(owner, KIND.password, hashOf(password)));
  const document = (found || undefined) as Document<PasswordBody> | undefined;
  const { usedAt, expiresAt = 0, conversation, turn } = document?.body ?? {};
  const isMeant =
    (scope.conversation === undefined || scope.conversation === conversation) &&
    (scope.turn === undefined || scope.turn === turn);
  if (document && isMeant && usedAt === undefined && expiresAt > Date.now()) return document;
  throw passwordRefused();
}

export function passwordRefused(): SluiceError {
  return new SluiceError(
    "token_invalid",
    "The one-time password is missing, unknown, used, expired, or another run's. It is not given out again.",
  );
}

/** Uses it up; fails where somebody else did meanwhile. */
export function spend({ id, revision, body }: Document<PasswordBody>): Change {
  return { op: "replace", kind: KIND.password, id, expect: revision, body: { ...body, usedAt: Date.now() } };
}

/** The removal of some that have expired long ago. */
export async function sweepPasswords(catalog: Catalog, owner: string, ttlMs: number): Promise<Change[]> {
  const created = { lt: Date.now() - 2 * ttlMs - 60_000 };
  const old = await catalog.list(owner, { kind: KIND.password, created, limit: SWEPT });
  return old.map(({ id }) => ({ op: "remove", kind: KIND.password, id }));
}

function hashOf(password: string): string {
  return createHash("sha256").update(password).digest("hex");
}
