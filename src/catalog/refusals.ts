import { SluiceError } from "../contract/index.ts";

/** The refusals of every catalog, in the same words. */

export function documentExists(kind: string, id: string): SluiceError {
  return new SluiceError("name_taken", `There is a document ${kind} ${id} already.`, { kind, id });
}

export function keyTaken(kind: string, key: string): SluiceError {
  return new SluiceError("name_taken", `The ${kind} ${JSON.stringify(key)} exists already.`, { kind, key });
}

export function documentNotFound(kind: string, id: string): SluiceError {
  return new SluiceError("not_found", `There is no ${kind} ${id}.`, { kind, id });
}

export function documentDamaged(kind: string, id: string): SluiceError {
  const detail = `The ${kind} ${id} is damaged in the store. Restore it from a backup, or delete it.`;
  return new SluiceError("internal", detail, { kind, id });
}

export function revisionMoved(kind: string, id: string, expected: number, found: number): SluiceError {
  const detail = `The ${kind} ${id} is at revision ${found} and not at ${expected}. Read it again and try again.`;
  return new SluiceError("version_conflict", detail, { kind, id, expected, found });
}

export function bytesMissing(hash: string): SluiceError {
  return new SluiceError("file_not_found", `The content ${hash} is not stored here.`, { hash });
}

export function bytesTooLarge(limit: number): SluiceError {
  const detail = `The content is larger than the limit of ${limit} bytes. Send a smaller one.`;
  return new SluiceError("too_large", detail, { limit });
}

export function secretUnreadable(kind: string, id: string, cause?: unknown): SluiceError {
  const detail = `The secret of ${kind} ${id} cannot be opened with the key of this catalog. Store it again.`;
  return new SluiceError("internal", detail, { kind, id }, { cause });
}
