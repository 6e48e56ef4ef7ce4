import { realpath, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { realpath as realpathNow } from "../../disk/onTheSpot.ts";
import { isInside } from "./mapping.ts";
import { OpenFolder } from "./open-folder.ts";

/** The real path of a directory that somebody wants to work in, if any; none of sluice's own, nor below one. */
export async function toDirectory(
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

/** That the directory is still a folder where it was: an agent with a folder above it could have put a link in its place. */
export function demandDirectory(directory: string): void {
  try {
    OpenFolder.openReal(directory).close();
  } catch (error) {
    const detail = `The directory ${directory} is gone, or a link was put in its place. Bring it back, or make a session elsewhere.`;
    throw new SluiceError("invalid_request", detail, { directory }, { cause: error });
  }
}

/** Folders of the server's own as they really are: a workspace is compared with them by its real path. */
export async function toRealPaths(paths: readonly string[]): Promise<string[]> {
  return Promise.all(paths.map((path) => realpathNow(path).catch(() => path)));
}
