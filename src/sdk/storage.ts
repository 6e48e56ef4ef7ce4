import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { SluiceError } from "../contract/index.ts";
import type { CheckpointStorage } from "../sandbox/checkpoint/port.ts";
import { type AgentResponse, refuse } from "./agent-response.ts";
import type { Link } from "./backend/port.ts";
import type { JobContext } from "./job-runner.ts";

/**
 * A bucket of any S3 server. Absent fields come from the usual `AWS_…` variables.
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
 * The storage of checkpoints: a folder or a bucket.
 *
 * @example
 * const storage: StorageConfig = { path: "./checkpoints" };
 * new Sluice().withStorage(storage);
 */
export type StorageConfig = string | { path: string } | { s3: S3Config };

export interface CheckpointStore {
  /** The store's name in an engine or a server; undefined for the default store. */
  readonly name: string | undefined;
  /** Opens the storage in this process. Its code is loaded then. */
  open?(): Promise<CheckpointStorage>;
}

/** Equal configurations get equal names, so that two programs share their checkpoints. */
export function toCheckpointStore(config: StorageConfig | undefined): CheckpointStore {
  if (config === undefined) return { name: undefined };
  if (typeof config === "object" && "s3" in config) {
    const { s3 } = config;
    const endpoint = endpointOf(s3);
    const name = nameOf(["s3", endpoint, s3.bucket, s3.prefix ?? ""]);
    return { name, open: () => openBucket(s3, endpoint) };
  }
  const path = resolve(typeof config === "string" ? config : config.path);
  return { name: nameOf(["folder", path]), open: () => openFolder(path) };
}

/** The id of the checkpoint to start from; `latest` is the newest of the store. */
export async function findCheckpoint(
  link: Link,
  store: CheckpointStore | undefined,
  from: string,
): Promise<string> {
  if (from !== "latest") return from;
  const [newest] = await link.listCheckpoints(store?.name, { limit: 1 });
  if (newest) return newest.id;
  const detail = "No checkpoints found in this storage; run without `from` first.";
  throw new SluiceError("checkpoint_not_found", detail);
}

/** Adds the checkpoint of a successful run to its response, if a store is set. */
export async function addCheckpoint(
  link: Link,
  store: CheckpointStore | undefined,
  { kind, response, checkpointId }: Parameters<JobContext["complete"]>[1],
): Promise<AgentResponse> {
  if (!store || kind !== "run" || response.exitCode !== 0) return response;
  const listed =
    checkpointId === undefined ? [] : await link.listCheckpoints(store.name, { limit: 50 }).catch(() => []);
  const checkpoint = listed.find(({ id }) => id === checkpointId);
  if (checkpoint) return { ...response, checkpoint };
  // The run succeeded, so a missing checkpoint is only a warning.
  process.emitWarning(`The run in ${response.sandboxId} went well, but no checkpoint of it was kept.`, {
    code: "SLUICE_NO_CHECKPOINT",
    detail: "The storage may be full or closed to writing, or the sandbox was made without withStorage().",
  });
  return response;
}

function nameOf(address: readonly string[]): string {
  return `sdk-${createHash("sha256").update(JSON.stringify(address)).digest("hex").slice(0, 24)}`;
}

function endpointOf({ endpoint, region }: S3Config): string {
  const { AWS_ENDPOINT_URL_S3: own, AWS_ENDPOINT_URL: common } = process.env;
  return endpoint ?? (own || common || `https://s3.${regionOf(region)}.amazonaws.com`);
}

function regionOf(region: string | undefined): string {
  return region ?? (process.env["AWS_REGION"] || process.env["AWS_DEFAULT_REGION"] || "us-east-1");
}

async function openFolder(path: string): Promise<CheckpointStorage> {
  const { createFolderStorage } = await import("../sandbox/checkpoint/storage/folder.ts");
  return createFolderStorage(path);
}

async function openBucket(s3: S3Config, endpoint: string): Promise<CheckpointStorage> {
  const { createS3Storage } = await import("../sandbox/checkpoint/storage/s3.ts");
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
  throw refuse(`The storage is an S3 bucket, and ${name} is not set. Set it, or give the key.`);
}
