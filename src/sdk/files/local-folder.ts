import {
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, sep } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { type FileMap, toBytes, toInnerPath } from "./workspace.ts";

/**
 * The files of a local folder, for `uploadContext()` and `uploadFiles()`. Links that lead out of the folder and special
 * files are left out.
 *
 * @example
 * await sluice.uploadContext(readLocalDir("./input", true));
 */
export function readLocalDir(dir: string, recursive = false): FileMap {
  const root = realpathSync(dir);
  const files: [string, FileMap[string]][] = [];
  const seen = new Set<string>();
  const walk = (folder: string, prefix: string): void => {
    const real = realpathSync(folder);
    if (seen.has(real)) return;
    seen.add(real);
    for (const name of readdirSync(folder).sort()) {
      const path = join(folder, name);
      if (!isInside(path, root)) continue;
      const found = statSync(path);
      if (found.isFile()) files.push([prefix + name, readFileSync(path)]);
      if (found.isDirectory() && recursive) walk(path, `${prefix}${name}/`);
    }
  };
  walk(root, "");
  // `fromEntries` keeps a file named __proto__, which an assignment would lose.
  return Object.fromEntries(files);
}

/**
 * Writes files into a local folder, which is created if needed. A path that leads outside is refused before anything
 * is written.
 *
 * @example
 * saveLocalDir("./output", (await sluice.getOutputFiles(true)).files);
 */
export function saveLocalDir(dir: string, files: FileMap): void {
  const entries = Object.entries(files).map(([path, content]) => [toInnerPath(path), content] as const);
  mkdirSync(dir, { recursive: true });
  const root = realpathSync(dir);
  for (const [path] of entries) refuseLinks(root, path);
  for (const [path, content] of entries) {
    const names = path.split("/");
    mkdirSync(join(root, ...names.slice(0, -1)), { recursive: true });
    refuseLinks(root, path);
    const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = constants;
    const flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
    const file = openSync(join(root, ...names), flags, 0o666);
    try {
      writeFileSync(file, toBytes(content));
    } finally {
      closeSync(file);
    }
  }
}

function refuseLinks(root: string, path: string): void {
  let at = root;
  for (const name of path.split("/")) {
    at = join(at, name);
    const found = lstatSync(at, { throwIfNoEntry: false });
    if (!found?.isSymbolicLink()) continue;
    const detail = `${at} is a link, and it may lead out of the folder. Remove it first.`;
    throw new SluiceError("permission_denied", detail, { path });
  }
}

/** Whether a path lies in the folder after its links are followed. A broken link does not. */
function isInside(path: string, root: string): boolean {
  try {
    const real = realpathSync(path);
    return real === root || real.startsWith(root.endsWith(sep) ? root : root + sep);
  } catch {
    return false;
  }
}
