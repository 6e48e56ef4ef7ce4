import { OpenFolder, SwappedFolder } from "../host/open-folder.ts";

/** A folder of a root; `root` has to be real, `path` is relative to it, "" for the root. Undefined where a symlink is on the way. */
export function openAnchor(root: string, path: string): OpenFolder | undefined {
  try {
    return OpenFolder.openReal(path === "" ? root : `${root}/${path}`, { readable: true });
  } catch (error) {
    if (error instanceof SwappedFolder) return undefined;
    throw error;
  }
}
