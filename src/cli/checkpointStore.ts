import { createFolderStorage, createS3Storage, type CheckpointStorage } from "../sandbox/index.ts";
import { CliFailure, EXIT } from "./failure.ts";

/**
 * Where checkpoints are kept: `SLUICE_CHECKPOINTS` is a folder or `s3://bucket/prefix`, the latter with the
 * variables that every S3 tool knows. Without it they lie in the data folder.
 */
export function checkpointStorageOf(env: NodeJS.ProcessEnv = process.env): CheckpointStorage | undefined {
  const place = env["SLUICE_CHECKPOINTS"];
  if (!place) return undefined;
  if (!place.startsWith("s3://")) return createFolderStorage(place);
  const { hostname: bucket, pathname } = new URL(place);
  const region = env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || "us-east-1";
  const prefix = pathname.replaceAll(/^\/+|\/+$/g, "");
  return createS3Storage({
    endpoint: env["AWS_ENDPOINT_URL_S3"] || env["AWS_ENDPOINT_URL"] || `https://s3.${region}.amazonaws.com`,
    bucket,
    region,
    accessKeyId: demand(env, "AWS_ACCESS_KEY_ID"),
    secretAccessKey: demand(env, "AWS_SECRET_ACCESS_KEY"),
    sessionToken: env["AWS_SESSION_TOKEN"] || undefined,
    prefix: prefix === "" ? undefined : prefix,
  });
}

function demand(env: NodeJS.ProcessEnv, name: string): string {
  const value = env[name];
  if (value) return value;
  throw new CliFailure(
    `SLUICE_CHECKPOINTS names an S3 bucket, and ${name} is not set. Set it, or name a folder.`,
    EXIT.usage,
  );
}
