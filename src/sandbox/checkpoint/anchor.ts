import { closeSync, constants, openSync, readlinkSync } from "node:fs";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;

/** An open folder of a root. No symlink that is swapped in on the way to it can lead a name in it elsewhere. */
export interface FolderAnchor {
  readonly fd: number;
  /** The folder itself, by its descriptor where the system can. */
  readonly here: string;
  at(name: string): string;
  close(): void;
}

/** `root` has to be real; `path` is relative to it, "" for the root. Undefined where a symlink is on the way. */
export function openAnchor(root: string, path: string): FolderAnchor | undefined {
  const expected = path === "" ? root : `${root}/${path}`;
  const fd = openSync(expected, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const link = `/proc/self/fd/${fd}`;
  const real = process.platform === "linux" ? readRealPath(link) : undefined;
  if (real !== undefined && real !== expected) {
    closeSync(fd);
    return undefined;
  }
  const here = real === undefined ? expected : link;
  return { fd, here, at: (name) => `${here}/${name}`, close: () => closeSync(fd) };
}

function readRealPath(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
}
