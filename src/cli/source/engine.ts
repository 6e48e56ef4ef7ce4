import { existsSync } from "node:fs";
import { join } from "node:path";
import { createSqliteLog, type EventLog } from "../../log/index.ts";
import { type CheckpointStorage, createFolderStorage, createS3Storage } from "../../sandbox/index.ts";
import { createEngine, DEFAULT_ORPHAN_MS, type Engine, type EngineOptions } from "../../sessions/index.ts";
import { readCassetteVariable } from "../run/cassette-options.ts";
import { badUsage } from "../terminal/failure.ts";
import { ensureDataDir } from "./data-folder.ts";
import { refuseBound } from "./database.ts";

/** Opens the log of a data folder; undefined if there is none and `mustExist` is set. */
export function openLog(folder: string, options: { mustExist: true }): EventLog | undefined;
export function openLog(folder: string): EventLog;
export function openLog(folder: string, options: { mustExist?: boolean } = {}): EventLog | undefined {
  refuseBound(folder);
  if (options.mustExist && !hasLog(folder)) return undefined;
  return createSqliteLog({ folder });
}

export function hasLog(folder: string): boolean {
  return existsSync(join(folder, "log.db"));
}

/**
 * Opens an engine on the data folder, or on a given log beside it; the caller closes its log. `makeOptions` may write to
 * the folder, so it is called only after the check that the folder is sluice's own.
 */
export async function openEngine(
  dataDir: string,
  makeOptions: () => Pick<
    EngineOptions,
    | "secrets"
    | "logger"
    | "recorder"
    | "equip"
    | "kept"
    | "sharedUses"
    | "lend"
    | "mcpVerdict"
    | "onCommit"
    | "orphanMs"
    | "retention"
    | "defaultSandbox"
    | "providers"
    | "recoversBeside"
    | "ownership"
  > = () => ({}),
  given?: EventLog,
): Promise<Engine> {
  const log = given ?? openLog(ensureDataDir(dataDir));
  try {
    const checkpointStorage = checkpointStorageOf();
    const cassette = readCassetteVariable();
    const privateHosts = process.env["SLUICE_PRIVATE_HOSTS"]?.split(",").filter((name) => name !== "");
    return await createEngine({
      log,
      dataDir,
      orphanMs: DEFAULT_ORPHAN_MS,
      ...(checkpointStorage && { checkpointStorage }),
      ...(privateHosts && { privateHosts }),
      ...(cassette && { cassette }),
      ...makeOptions(),
    });
  } catch (error) {
    await log.close();
    throw error;
  }
}

/**
 * The checkpoint storage of `SLUICE_CHECKPOINTS`: a folder, or `s3://bucket/prefix` with the usual `AWS_…` variables.
 * Undefined means the data folder.
 */
function checkpointStorageOf(env: NodeJS.ProcessEnv = process.env): CheckpointStorage | undefined {
  const address = env["SLUICE_CHECKPOINTS"];
  if (!address) return undefined;
  if (!address.startsWith("s3://")) return createFolderStorage(address);
  const { hostname: bucket, pathname } = new URL(address);
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
  throw badUsage(`SLUICE_CHECKPOINTS names an S3 bucket, and ${name} is not set. Set it, or name a folder.`);
}
