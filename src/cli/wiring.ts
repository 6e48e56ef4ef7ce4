import { existsSync } from "node:fs";
import { join } from "node:path";
import { createSqliteLog, type EventLog } from "../log/index.ts";
import { createEngine, DEFAULT_ORPHAN_MS, type Engine, type EngineOptions } from "../sessions/index.ts";
import { checkpointStorageOf } from "./checkpointStore.ts";
import { ensureDataDir } from "./dataDir.ts";

/** How the rooms are put together for the command line; with HTTP in front of them in `server.ts`. */

/** The log of a data folder; undefined where there is none and `mustExist` forbids to make one. */
export function openLog(folder: string, options: { mustExist: true }): EventLog | undefined;
export function openLog(folder: string): EventLog;
export function openLog(folder: string, options: { mustExist?: boolean } = {}): EventLog | undefined {
  if (options.mustExist && !hasLog(folder)) return undefined;
  return createSqliteLog({ folder });
}

export function hasLog(folder: string): boolean {
  return existsSync(join(folder, "log.db"));
}

/**
 * An engine on the data folder itself; its log is the caller's to close.
 * `settle` is asked once the folder is known to be ours: before that, nothing may be written to it.
 */
export async function openEngine(
  dataDir: string,
  settle: () => Pick<
    EngineOptions,
    | "secrets"
    | "logger"
    | "recorder"
    | "equip"
    | "lend"
    | "mcpVerdict"
    | "onCommit"
    | "orphanMs"
    | "retention"
    | "defaultSandbox"
    | "providers"
    | "recoversBeside"
  > = () => ({}),
): Promise<Engine> {
  const log = openLog(ensureDataDir(dataDir));
  try {
    const checkpointStorage = checkpointStorageOf();
    const privateHosts = process.env["SLUICE_PRIVATE_HOSTS"]?.split(",").filter((name) => name !== "");
    return await createEngine({
      log,
      dataDir,
      orphanMs: DEFAULT_ORPHAN_MS,
      ...(checkpointStorage && { checkpointStorage }),
      ...(privateHosts && { privateHosts }),
      ...settle(),
    });
  } catch (error) {
    await log.close();
    throw error;
  }
}
