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
export const PINNED: SandboxPaths = {
  workspace: "/home/user/workspace",
  home: "/home/user",
  uploads: "/mnt/session/uploads",
  outputs: "/mnt/session/outputs",
};

/**
 * Maps by the letters of the path alone; symlinks are for whoever opens it. `paths` is what the agent sees, `host`
 * where that is; `base` is what a relative path is under, as the agent sees it.
 */
export function toMappedPath(
  path: string,
  paths: SandboxPaths,
  base: string,
  host: SandboxPaths = paths,
): MappedPath {
  if (path.includes("\0")) throw new SluiceError("invalid_request", "A path cannot hold a NUL byte.");
  const said = trim(isAbsolute(path) ? normalize(path) : join(base, path));
  if (!isAbsolute(path) && !isInside(said, base)) throw outside(path);
  const names = [...namesOf(paths, host), ...namesOfPinned(host)];
  for (const [prefix, root] of names) {
    if (isInside(said, prefix)) return { said, host: trim(join(root, relative(prefix, said))) };
  }
  throw outside(path);
}

/** A path that begins with a pinned one, with the host's in its place; `..` is for whoever looks it up. */
export function toHostSpelling(path: string, mapped: string, host: SandboxPaths): string {
  if (!path.split(sep).includes("..")) return mapped;
  for (const [prefix, root] of namesOfPinned(host)) {
    if (isInside(path, prefix)) return root + path.slice(prefix.length);
  }
  return path;
}

function namesOfPinned(host: SandboxPaths): (readonly [string, string])[] {
  return [...namesOf(PINNED, host), ["/workspace", host.workspace]];
}

/** The home comes last: the workspace may be in it. */
function namesOf(paths: SandboxPaths, host: SandboxPaths): (readonly [string, string])[] {
  return [
    [paths.uploads, host.uploads],
    [paths.outputs, host.outputs],
    [paths.workspace, host.workspace],
    [paths.home, host.home],
  ];
}

/** The folders between a root and something in it, the outermost first. */
export function foldersBetween(root: string, path: string): string[] {
  const parts = relative(root, path).split(sep).slice(0, -1);
  return parts.map((_, index) => join(root, ...parts.slice(0, index + 1)));
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
