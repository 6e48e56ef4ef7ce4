import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { SluiceError } from "../contract/index.ts";
import { createFolderStorage, createS3Storage, type CheckpointStorage } from "../sandbox/index.ts";

/**
 * A bucket of any S3 server. What is left out is taken from the variables that every S3 tool knows.
 *
 * @example
 * const s3: S3Config = { bucket: "my-checkpoints", prefix: "team-a", endpoint: "https://s3.example.com" };
 * new Sluice().withStorage({ s3 });
 */
export interface S3Config {
  bucket: string;
  prefix?: string;
  region?: string;
  endpoint?: string;
  accessKeyId?: string;
  secretAccessKey?: string;
  sessionToken?: string;
}

/**
 * Where checkpoints are kept: a folder, or a bucket.
 *
 * @example
 * const storage: StorageConfig = { path: "./checkpoints" };
 * new Sluice().withStorage(storage);
 */
export type StorageConfig = string | { path: string } | { s3: S3Config };

export interface Shelf {
  /** The name by which an engine or a server knows it; undefined for the common one. */
  readonly name: string | undefined;
  /** What is really there, where this process is the one that keeps it. */
  open?(): CheckpointStorage;
}

/** Equal places have equal names, so that two programs find each other's checkpoints. */
export function toShelf(config: StorageConfig | undefined): Shelf {
  if (config === undefined) return { name: undefined };
  if (typeof config === "object" && "s3" in config) {
    const { s3 } = config;
    const endpoint = endpointOf(s3);
    const name = nameOf(["s3", endpoint, s3.bucket, s3.prefix ?? ""]);
    return { name, open: () => openBucket(s3, endpoint) };
  }
  const path = resolve(typeof config === "string" ? config : config.path);
  return { name: nameOf(["folder", path]), open: () => createFolderStorage(path) };
}

function nameOf(place: readonly string[]): string {
  return `sdk-${createHash("sha256").update(JSON.stringify(place)).digest("hex").slice(0, 24)}`;
}

function endpointOf({ endpoint, region }: S3Config): string {
  const { AWS_ENDPOINT_URL_S3: own, AWS_ENDPOINT_URL: common } = process.env;
  return endpoint ?? (own || common || `https://s3.${regionOf(region)}.amazonaws.com`);
}

function regionOf(region: string | undefined): string {
  return region ?? (process.env["AWS_REGION"] || process.env["AWS_DEFAULT_REGION"] || "us-east-1");
}

function openBucket(s3: S3Config, endpoint: string): CheckpointStorage {
  return createS3Storage({
    endpoint,
    bucket: s3.bucket,
    region: regionOf(s3.region),
    accessKeyId: s3.accessKeyId ?? demand("AWS_ACCESS_KEY_ID"),
    secretAccessKey: s3.secretAccessKey ?? demand("AWS_SECRET_ACCESS_KEY"),
    sessionToken: s3.sessionToken ?? process.env["AWS_SESSION_TOKEN"],
    prefix: s3.prefix,
  });
}

function demand(name: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new SluiceError(
    "invalid_request",
    `The storage is an S3 bucket, and ${name} is not set. Set it, or give the key.`,
  );
}
