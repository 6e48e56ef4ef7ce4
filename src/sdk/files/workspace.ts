import { resolve } from "node:path";
import type { Link } from "../backend/port.ts";
import { type FileMap, toBytes, toInnerPath } from "./file-map.ts";

export const WORKSPACE = "/home/user/workspace";

/** The working directory and the files of a new sandbox. */
interface GivenFiles {
  readonly directory?: string;
  /** Files for `context/`. */
  readonly context: FileMap;
  readonly files: FileMap;
}

const FOLDERS = ["context", "scripts", "temp", "output"];

/** Creates the folders and writes the files of a new sandbox. */
export async function placeFiles(
  link: Link,
  id: string,
  { directory, context, files }: GivenFiles,
): Promise<void> {
  // A folder of the user's own gets none of these folders.
  if (hostFolder(directory) === undefined) {
    for (const name of FOLDERS) await link.files.mkdir(id, `${WORKSPACE}/${name}`);
  }
  const inner = innerFolder(directory);
  if (inner !== undefined) await link.files.mkdir(id, inner);
  await writeFiles(link, id, "context", context);
  await writeFiles(link, id, "", files);
}

/** Writes files below a folder of the workspace; "" is the workspace itself. */
export async function writeFiles(link: Link, id: string, folder: string, files: FileMap): Promise<void> {
  const root = folder === "" ? WORKSPACE : `${WORKSPACE}/${folder}`;
  const entries = Object.entries(files).map(([path, content]) => [toInnerPath(path), content] as const);
  for (const [path, content] of entries) await link.files.write(id, `${root}/${path}`, toBytes(content));
}

const INNER = /^(\/home\/user\/workspace|\/workspace)(\/|$)/;

/** The folder of this machine that becomes the workspace; undefined for a directory inside the sandbox. */
export function hostFolder(directory: string | undefined): string | undefined {
  return directory === undefined || INNER.test(directory) ? undefined : resolve(directory);
}

/** The in-sandbox path of a directory below the workspace; undefined for any other directory. */
export function innerFolder(directory: string | undefined): string | undefined {
  if (directory === undefined || !INNER.test(directory)) return undefined;
  const below = directory.replace(INNER, "").replace(/\/+$/, "");
  return below === "" ? undefined : `${WORKSPACE}/${below}`;
}
