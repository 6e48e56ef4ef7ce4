import { userInfo } from "node:os";
import { join } from "node:path";

/** The default folder for durable data: `$XDG_DATA_HOME/sluice`, else `~/.local/share/sluice`. */
export function defaultDataFolder(env: NodeJS.ProcessEnv = process.env): string {
  // By the XDG specification a relative path is invalid and ignored.
  const xdg = env["XDG_DATA_HOME"]?.startsWith("/") ? env["XDG_DATA_HOME"] : undefined;
  return join(xdg ?? join(homeFolder(env), ".local", "share"), "sluice");
}

/** This user's home; `/` for a user without one, such as a uid that is not in the passwd file. */
export function homeFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env["HOME"]?.startsWith("/")) return env["HOME"];
  try {
    return userInfo().homedir || "/";
  } catch {
    return "/";
  }
}
