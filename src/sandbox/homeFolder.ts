import { userInfo } from "node:os";

/** This user's home; the root where there is none, as for a uid that no line of the passwd file knows. */
export function homeFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env["HOME"]?.startsWith("/")) return env["HOME"];
  try {
    return userInfo().homedir || "/";
  } catch {
    return "/";
  }
}
