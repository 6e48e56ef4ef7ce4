import { SluiceError } from "../../contract/index.ts";

/** Stored bytes that are not what they should be. Nothing of them is ever used. */
export function corrupt(key: string, why: string): SluiceError {
  const detail = `The checkpoint storage is damaged: ${key} ${why}. Restore another checkpoint, or put ${key} back from a copy of the storage.`;
  return new SluiceError("internal", detail, { corrupt: key });
}
