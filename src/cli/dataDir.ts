import { chmodSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { defaultDataFolder } from "../sandbox/dataFolder.ts";
import { CliFailure } from "./failure.ts";

/** Where everything durable lives: `--data`, else `$XDG_DATA_HOME/sluice`, else `~/.local/share/sluice`. */
export function dataDirOf(option: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return option ? resolve(option) : defaultDataFolder(env);
}

/** Whether it cannot even be said what is there. */
export function isHidden(folder: string): boolean {
  try {
    statSync(join(folder, "log.db"));
    return false;
  } catch (error) {
    return ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}

/** Makes it, parents and all, closed to everybody else. */
export function ensureDataDir(folder: string): string {
  try {
    makeFolder(folder);
    if ((statSync(folder).mode & 0o077) !== 0) closeToOthers(folder);
    return folder;
  } catch (error) {
    const { message } = error as Error;
    throw new CliFailure(
      `The data folder ${folder} cannot be used (${message}). Choose another one with --data.`,
    );
  }
}

/** Somebody may have named a folder that is in use for something else, such as /tmp. */
function closeToOthers(folder: string): void {
  const names = readdirSync(folder);
  const isOurs = names.length === 0 || ["log.db", "token"].some((name) => names.includes(name));
  if (!isOurs)
    throw new Error("others use it, and it holds other things than sluice's; chmod 700 makes it private");
  chmodSync(folder, 0o700);
}

// Not `recursive`: Node never comes back from that where the system says that the parent is not there, as in /proc.
function makeFolder(folder: string): void {
  if (existsSync(folder)) {
    if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder`);
    return;
  }
  if (dirname(folder) !== folder) makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
