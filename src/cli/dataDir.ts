import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { CliFailure } from "./failure.ts";

/** Where everything durable lives: `--data`, else `$XDG_DATA_HOME/sluice`, else `~/.local/share/sluice`. */
export function dataDirOf(option: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (option) return resolve(option);
  // The XDG specification: a relative path there is invalid and must be ignored.
  const xdg = env["XDG_DATA_HOME"]?.startsWith("/") ? env["XDG_DATA_HOME"] : undefined;
  return join(xdg ?? join(env["HOME"] || homedir(), ".local", "share"), "sluice");
}

/** Makes it, parents and all, closed to everybody else. */
export function ensureDataDir(folder: string): string {
  try {
    makeFolder(folder);
    if ((statSync(folder).mode & 0o077) !== 0) chmodSync(folder, 0o700);
    return folder;
  } catch (error) {
    const { message } = error as Error;
    throw new CliFailure(
      `The data folder ${folder} cannot be used (${message}). Choose another one with --data.`,
    );
  }
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
