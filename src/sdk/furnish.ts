import type { Link } from "./backend.ts";
import { type FileMap, toBytes, toInnerPath } from "./file-map.ts";
import { WORKSPACE } from "./output-files.ts";
import { hostFolder, innerFolder, type Settings } from "./settings.ts";

const FOLDERS = ["context", "scripts", "temp", "output"];

/** Puts into a new sandbox what the builders were given. */
export async function furnish(link: Link, id: string, settings: Settings): Promise<void> {
  const { directory, context, files } = settings;
  // A folder of the host is somebody's own: nothing is put there unasked.
  if (hostFolder(directory) === undefined) {
    for (const name of FOLDERS) await link.files.mkdir(id, `${WORKSPACE}/${name}`);
  }
  const inner = innerFolder(directory);
  if (inner !== undefined) await link.files.mkdir(id, inner);
  await writeFiles(link, id, "context", context);
  await writeFiles(link, id, "", files);
}

/** `folder` is below the workspace. */
export async function writeFiles(link: Link, id: string, folder: string, files: FileMap): Promise<void> {
  const root = folder === "" ? WORKSPACE : `${WORKSPACE}/${folder}`;
  const entries = Object.entries(files).map(([path, content]) => [toInnerPath(path), content] as const);
  for (const [path, content] of entries) await link.files.write(id, `${root}/${path}`, toBytes(content));
}
