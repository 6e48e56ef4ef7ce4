import { chmodSync, mkdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** Where everything durable lives: `--data`, else `$XDG_DATA_HOME/sluice`, else `~/.local/share/sluice`. */
export function dataDirOf(option: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (option) return resolve(option);
  // The XDG specification: a relative path there is invalid and must be ignored.
  const xdg = env["XDG_DATA_HOME"]?.startsWith("/") ? env["XDG_DATA_HOME"] : undefined;
  return join(xdg ?? join(env["HOME"] || homedir(), ".local", "share"), "sluice");
}

/** Makes it, parents and all, closed to everybody else. */
export function ensureDataDir(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if ((statSync(folder).mode & 0o077) !== 0) chmodSync(folder, 0o700);
  return folder;
}
