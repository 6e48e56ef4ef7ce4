import { z } from "zod";
import { SluiceError } from "../../../contract/index.ts";

const MAX_PAIRS = 16;
const MAX_KEY = 64;
const MAX_VALUE = 512;

export const Metadata = z.record(z.string(), z.string());
export type Metadata = z.infer<typeof Metadata>;

/** A string sets a key, null removes it, an absent key stays. */
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

/** Refuses a well-formed request that cannot be fulfilled; `errorCode` is a code that the SDK has a class for. */
export function refuse(detail: string, errorCode?: string): SluiceError {
  return new SluiceError("invalid_request", detail, errorCode === undefined ? {} : { errorCode });
}

/** Refuses a feature of the official service that sluice does not have. `what` begins the sentence, with its verb. */
export function unsupported(what: string): SluiceError {
  return refuse(`${what} not supported here. Leave it out.`);
}

/** A type of the SDK with read-only fields and lists, as our resources have them. */
export type Immutable<T> = unknown extends T ? T : { readonly [K in keyof T]: Immutable<T[K]> };

/** A resource as the catalog has it. */
export interface Stored<Body> {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly body: Body;
}

/** A time in RFC 3339, from milliseconds since 1970. */
export function toTimestamp(time: number): string {
  return new Date(time).toISOString();
}

/** A resource on the wire. */
export type Resource<Type extends string, Body> = Body & {
  readonly id: string;
  readonly type: Type;
  readonly created_at: string;
  readonly updated_at: string;
};

export function toResource<Type extends string, Body>(
  type: Type,
  stored: Stored<Body>,
): Resource<Type, Body> {
  return { id: stored.id, type, ...stored.body, ...toTimes(stored) };
}

export function toTimes(stored: Stored<unknown>): { created_at: string; updated_at: string } {
  return { created_at: toTimestamp(stored.createdAt), updated_at: toTimestamp(stored.updatedAt) };
}
