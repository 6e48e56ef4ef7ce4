import { realpath, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { realpath as realpathNow } from "../../disk/on-the-spot.ts";
import { homeFolder } from "../data-folder.ts";
import { OpenFolder } from "./files/open-folder.ts";
import { isInside } from "./files/paths.ts";

/** The real path of the directory that a client asked for, if any. A directory in `own`, sluice's data, is refused. */
export async function resolveDirectory(
  directory: string | undefined,
  own: readonly string[],
): Promise<string | undefined> {
  if (directory === undefined) return undefined;
  if (!isAbsolute(directory)) {
    throw new SluiceError(
      "invalid_request",
      `The directory ${directory} is relative. Give an absolute path.`,
    );
  }
  const real = await realpath(directory).catch(() => undefined);
  if (real === undefined || !(await stat(real)).isDirectory()) {
    const detail = `There is no directory ${directory} on the server. Make it, name another one, or leave it out for a private one.`;
    throw new SluiceError("invalid_request", detail, { directory });
  }
  if (own.some((path) => isInside(real, path))) {
    const detail = `The directory ${directory} belongs to sluice's own data. Name another one, or leave it out for a private one.`;
    throw new SluiceError("invalid_request", detail, { directory });
  }
  return real;
}

/**
 * Checks that the directory is still a folder: an agent with access to a parent folder could have replaced it by a
 * link.
 */
export function demandDirectory(directory: string): void {
  try {
    OpenFolder.openReal(directory).close();
  } catch (error) {
    const detail = `The directory ${directory} is gone, or a link was put in its place. Bring it back, or make a session elsewhere.`;
    throw new SluiceError("invalid_request", detail, { directory }, { cause: error });
  }
}

/** The real paths of the server's own folders, to compare with the real path of a workspace. */
export async function resolveRealPaths(paths: readonly string[]): Promise<string[]> {
  return Promise.all(paths.map((path) => realpathNow(path).catch(() => path)));
}

/** Refuses a program whose folders would show a sandbox the user's home, the server's own data, or the whole disk. */
export function refuseExposed(needs: readonly string[], hide: readonly string[]): void {
  const home = homeFolder();
  const kept = [...(home === "/" ? [] : [home]), ...hide];
  const exposed = needs.find((need) => need === "/" || kept.some((path) => isInside(path, need)));
  if (exposed === undefined) return;
  const detail = `The program cannot be started in a sandbox: it would need all of ${exposed}, and with it a home or sluice's own data. Install it in a folder of its own.`;
  throw new SluiceError("permission_denied", detail, { path: exposed });
}
