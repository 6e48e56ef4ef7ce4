import { statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { SluiceError } from "../contract/index.ts";
import { mkdir } from "./sync-files.ts";

/** Creates a folder in the data folder, closed to other users. A file in its way is an error that names the file. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    const blocking = findBlockingFile(path);
    if (blocking === undefined) throw error;
    const detail = `${JSON.stringify(basename(blocking))} in the server's data folder is not a folder. Move it away, and try again.`;
    throw new SluiceError("internal", detail, {}, { cause: error });
  }
}

/** The first existing part of the path, if it is not a folder. */
function findBlockingFile(path: string): string | undefined {
  try {
    return statSync(path).isDirectory() ? undefined : path;
  } catch {
    return dirname(path) === path ? undefined : findBlockingFile(dirname(path));
  }
}
