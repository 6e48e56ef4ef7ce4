import { join } from "node:path";
import { homeFolder } from "./homeFolder.ts";

/** Where everything durable lives unless told otherwise: `$XDG_DATA_HOME/sluice`, else `~/.local/share/sluice`. */
export function defaultDataFolder(env: NodeJS.ProcessEnv = process.env): string {
  // The XDG specification: a relative path there is invalid and must be ignored.
  const xdg = env["XDG_DATA_HOME"]?.startsWith("/") ? env["XDG_DATA_HOME"] : undefined;
  return join(xdg ?? join(homeFolder(env), ".local", "share"), "sluice");
}
