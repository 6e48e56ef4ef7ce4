import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { makeOnce } from "../../catalog/encryption.ts";
import type { Catalog } from "../../catalog/index.ts";
import { createPostgresCatalog } from "../../catalog/postgres/catalog.ts";
import { readSharedKeys } from "../../catalog/postgres/key-check.ts";
import { createPostgresLog, type OpenPostgresLog } from "../../log/postgres/open.ts";
import { nameOf, parseAddress } from "../../postgres/address.ts";
import { Connections } from "../../postgres/connections.ts";
import { readFacts } from "../../postgres/facts.ts";
import { NodeLease } from "../../postgres/node-lease.ts";
import { SharedCounts } from "../../postgres/shared-counts.ts";
import { isProcessAlive, type Ownership, processName } from "../../sessions/upkeep/lease.ts";
import { type FileLock, lockFile } from "../../sqlite/lock.ts";
import { CliFailure } from "../terminal/failure.ts";
import { readVersion } from "../terminal/invocation.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { ServedNodes, toOwnership } from "./nodes.ts";

export const DEFAULT_LEASE_SECONDS = 10;

export interface DatabaseOptions {
  readonly database?: string;
  readonly databaseDirect?: string;
  readonly node?: string;
  /** The address of this node for the other nodes. */
  readonly advertise?: string;
  /** In seconds. */
  readonly lease?: number;
}

/** A PostgreSQL database that this process serves as one of its nodes. */
export interface ServedDatabase {
  readonly name: string;
  readonly log: OpenPostgresLog;
  readonly catalog: Catalog;
  readonly ownership: Ownership;
  readonly nodes: ServedNodes;
  /** Settings of the database that may lose events. */
  readonly warnings: readonly string[];
  /** The counts behind the limits by the minute. */
  readonly counts: SharedCounts;
  /** Renews the lease. `onLost` is called when another node has declared this one dead. */
  start(onLost: () => void): void;
  /** To be called after the last write. */
  release(): Promise<void>;
}

/** The database's URL: `--database`, else `SLUICE_DATABASE`, which the process list does not show. */
export function databaseUrlOf({ database }: DatabaseOptions, env = process.env): string | undefined {
  return database ?? (env["SLUICE_DATABASE"] || undefined);
}

/** The passwords of the URLs and the shared keys, to be redacted from events. */
export function databaseSecrets(...urls: readonly (string | undefined)[]): Map<string, string> {
  const secrets = new Map<string, string>();
  for (const [index, url] of urls.entries()) {
    const { password } = url === undefined ? {} : parseAddress(url);
    if (password !== undefined) secrets.set(`database password ${index + 1}`, password);
  }
  for (const [index, key] of (process.env["SLUICE_SEAL_KEY"] ?? "").split(",").entries())
    if (key.trim() !== "") secrets.set(`seal key ${index + 1}`, key.trim());
  return secrets;
}

/** Opens the database for a server. The caller closes the log and the catalog, and then releases the lease. */
export async function openDatabase(
  url: string,
  options: DatabaseOptions & { dataDir: string; host: string },
): Promise<ServedDatabase> {
  const { dataDir, databaseDirect, node = hostname(), lease: seconds = DEFAULT_LEASE_SECONDS } = options;
  const keys = readSharedKeys(dataDir);
  const lock = lockFolder(dataDir);
  let lease: NodeLease | undefined;
  let log: OpenPostgresLog | undefined;
  let counts: SharedCounts | undefined;
  const release = async (): Promise<void> => {
    await counts?.close();
    await lease?.release();
    lock.release();
  };
  try {
    const isLocal = isOnlyLocal(options.advertise ?? `http://${options.host}`);
    const machine = hostname();
    const about = { process: processName(), machine, isLocal, version: readVersion(), isDead };
    const warnings = await readWarnings(url);
    lease = await NodeLease.join({ url, name: node, seconds, ...about });
    const { databaseId } = lease;
    await bindFolder(dataDir, { id: databaseId, name: nameOf(url), moved: () => lease?.findMoved() });
    log = await createPostgresLog({
      url,
      ...(databaseDirect !== undefined && { directUrl: databaseDirect }),
    });
    const catalog = await createPostgresCatalog({ url, keys });
    counts = await SharedCounts.create({ url, node });
    const start = lease.start.bind(lease);
    const nodes = new ServedNodes(lease, keys);
    return {
      name: nameOf(url),
      log,
      catalog,
      ownership: toOwnership(lease),
      nodes,
      counts,
      warnings,
      start,
      release,
    };
  } catch (error) {
    await log?.close();
    await release();
    throw error;
  }
}

/** Fails for a database that a server cannot work with, before anything is changed in it. */
async function readWarnings(url: string): Promise<readonly string[]> {
  const database = await Connections.create({ url, max: 1, deadlineMs: 10_000 });
  try {
    const { refusal, warnings } = await readFacts(database.query);
    if (refusal === undefined) return warnings;
    throw new CliFailure(`The database ${nameOf(url)} cannot be used: ${refusal}. Nothing was changed.`);
  } finally {
    await database.close();
  }
}

/** Two nodes in one folder would end each other's sandboxes. */
function lockFolder(dataDir: string): FileLock {
  const lock = lockFile(join(dataDir, "node.db"));
  if (lock) return lock;
  throw new CliFailure(
    `Another server uses the data folder ${dataDir}. Give each node a folder of its own with --data.`,
  );
}

/** Whether no other machine can reach the address. One that listens everywhere has no address of its own. */
function isOnlyLocal(url: string): boolean {
  const { hostname: host } = new URL(url.replace(/\/\/([0-9a-f]*:[0-9a-f:]*)$/i, "//[$1]"));
  return /^(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\])$/.test(host);
}

function isDead(process: string): boolean {
  return !isProcessAlive(process);
}

/** The file that says to which database a data folder belongs. */
function bindingFile(dataDir: string): string {
  return join(dataDir, "database");
}

/** Ties the folder to the database: with another log, sandboxes of this one would be removed as unknown. */
export async function bindFolder(
  dataDir: string,
  { id, name, moved }: { id: string; name: string; moved?: () => Promise<string | undefined> | undefined },
): Promise<void> {
  const bound = readBinding(dataDir);
  if (bound === id) return;
  if (bound !== undefined)
    throw new CliFailure(
      `The data folder ${dataDir} belongs to another database than ${name}. Its sandboxes would be lost: choose another folder with --data.`,
    );
  if (existsSync(join(dataDir, "log.db")) && !(await isMoved(dataDir, moved)))
    throw new CliFailure(
      `The data folder ${dataDir} has a log of its own, which would not be served. Move it to an empty database with \`sluice migrate\`, or choose another folder with --data.`,
    );
  makeOnce(bindingFile(dataDir), `${id}\n`);
}

/** Whether the folder's log was moved to this database, and has not changed since. */
async function isMoved(
  dataDir: string,
  moved: (() => Promise<string | undefined> | undefined) | undefined,
): Promise<boolean> {
  const fingerprint = await moved?.();
  // A log that was never moved may be of any version or damaged: it is not read.
  return fingerprint !== undefined && fingerprint === fingerprintOf(dataDir);
}

/** Refuses to open a SQLite log in a folder whose log is in a database. */
export function refuseBound(dataDir: string): void {
  if (readBinding(dataDir) === undefined) return;
  throw new CliFailure(
    `The log of the data folder ${dataDir} is in a database. Name it with --database or SLUICE_DATABASE (\`sluice serve\`), ask the running server, or choose another folder with --data.`,
  );
}

function readBinding(dataDir: string): string | undefined {
  try {
    return readFileSync(bindingFile(dataDir), "utf8").trim();
  } catch {
    return undefined;
  }
}
