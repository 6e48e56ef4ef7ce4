import { z } from "zod";
import { refuse } from "./refusal.ts";

const MAX_PAIRS = 16;
const MAX_KEY = 64;
const MAX_VALUE = 512;

export const Metadata = z.record(z.string(), z.string());
export type Metadata = z.infer<typeof Metadata>;

/** A string sets a key, null removes it, what is not named stays. */
export const MetadataPatch = z.record(z.string(), z.string().nullable());
export type MetadataPatch = z.infer<typeof MetadataPatch>;

export function toMetadata(given: Metadata | null | undefined): Metadata {
  return checked({ ...given });
}

export function patchMetadata(
  stored: Metadata,
  patch: MetadataPatch | null | undefined,
  options: { emptyRemoves?: boolean } = {},
): Metadata {
  const patched = new Map(Object.entries(stored));
  for (const [key, value] of Object.entries(patch ?? {})) {
    if (value === null || (value === "" && options.emptyRemoves)) patched.delete(key);
    else patched.set(key, value);
  }
  return checked(Object.fromEntries(patched));
}

function checked(metadata: Metadata): Metadata {
  const entries = Object.entries(metadata);
  const problems = [];
  if (entries.length > MAX_PAIRS)
    problems.push(`${entries.length} keys, where at most ${MAX_PAIRS} are allowed`);
  for (const [key, value] of entries) {
    if (key.length === 0 || key.length > MAX_KEY)
      problems.push(`the key ${JSON.stringify(key.slice(0, MAX_KEY))} needs 1 to ${MAX_KEY} characters`);
    if (value.length > MAX_VALUE) problems.push(`the value of ${key} has more than ${MAX_VALUE} characters`);
  }
  if (problems.length > 0) throw refuse(`metadata: ${problems.join("; ")}.`, "invalid_metadata");
  return metadata;
}
