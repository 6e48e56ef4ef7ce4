import { isAbsolute, join, normalize, relative, sep } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { SandboxPaths } from "../port.ts";

/** A path of the API, and where it is on the host. */
export interface MappedPath {
  /** As the caller may say it again: absolute. */
  readonly said: string;
  readonly host: string;
}

/** The in-sandbox paths that every provider has, longest first. `local` can mount nothing, so they are mapped. */
function pinned(paths: SandboxPaths): [string, string][] {
  return [
    ["/mnt/session/uploads", paths.uploads],
    ["/mnt/session/outputs", paths.outputs],
    ["/home/user/workspace", paths.workspace],
    ["/workspace", paths.workspace],
    ["/home/user", paths.home],
  ];
}

/** Maps by the letters of the path alone; symlinks are for whoever opens it. `base` is what a relative path is under. */
export function toMappedPath(path: string, paths: SandboxPaths, base: string): MappedPath {
  if (path.includes("\0")) throw new SluiceError("invalid_request", "A path cannot hold a NUL byte.");
  if (!isAbsolute(path)) {
    const host = trim(join(base, path));
    if (!isInside(host, base)) throw outside(path);
    return { said: host, host };
  }
  const said = trim(normalize(path));
  for (const root of [paths.workspace, paths.home, paths.uploads])
    if (isInside(said, root)) return { said, host: said };
  for (const [prefix, root] of pinned(paths)) {
    if (isInside(said, prefix)) return { said, host: join(root, relative(prefix, said)) };
  }
  throw outside(path);
}

export function isInside(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

export function outside(path: string): SluiceError {
  const detail = `${path} is outside of the sandbox. Use a path in the workspace, relative or below /home/user/workspace.`;
  return new SluiceError("permission_denied", detail, { path });
}

function trim(path: string): string {
  return path.length > 1 && path.endsWith(sep) ? path.slice(0, -1) : path;
}
