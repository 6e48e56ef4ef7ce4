import { realpathSync } from "node:fs";
import { dirname, isAbsolute, join, normalize, relative, sep } from "node:path";
import { SluiceError } from "../../../contract/index.ts";
import type { Owner, SandboxPaths } from "../../port.ts";
import { fileError } from "./open-file.ts";

/** A path of the API, and its path on the host. */
interface MappedPath {
  /** The path inside the sandbox, absolute and normalised. */
  readonly inside: string;
  readonly host: string;
}

/** The paths that every provider has inside the sandbox. `local` mounts nothing, so there they are translated. */
export const PINNED: SandboxPaths = {
  workspace: "/home/user/workspace",
  home: "/home/user",
  uploads: "/mnt/session/uploads",
  outputs: "/mnt/session/outputs",
};

/**
 * Maps a path to the host by its text alone; the lookup handles symlinks. `paths` are the sandbox's folders as the agent
 * sees them, `host` the same folders on this host. `base` is where a relative path begins, as the agent sees it.
 */
export function toMappedPath(
  path: string,
  paths: SandboxPaths,
  base: string,
  host: SandboxPaths = paths,
): MappedPath {
  if (path.includes("\0")) throw new SluiceError("invalid_request", "A path cannot hold a NUL byte.");
  const inside = trim(isAbsolute(path) ? normalize(path) : join(base, path));
  if (!isAbsolute(path) && !isInside(inside, base)) throw outside(path);
  const names = [...namesOf(paths, host), ...namesOfPinned(host)];
  for (const [prefix, root] of names) {
    if (isInside(inside, prefix)) return { inside, host: trim(join(root, relative(prefix, inside))) };
  }
  throw outside(path);
}

/**
 * The host path of a pinned path. A path with `..` keeps its `..`, which the lookup resolves. Any other is `mapped`
 * already.
 */
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

/** The first match counts, and the workspace may lie in the home, so the home comes last. */
function namesOf(paths: SandboxPaths, host: SandboxPaths): (readonly [string, string])[] {
  return [
    [paths.uploads, host.uploads],
    [paths.outputs, host.outputs],
    [paths.workspace, host.workspace],
    [paths.home, host.home],
  ];
}

/** The folders between a root and the entries below it, the outermost first. */
export function foldersAbove(paths: readonly string[], root: string): string[] {
  const found = paths.flatMap((path) => {
    const parts = relative(root, path).split(sep).slice(0, -1);
    return parts.map((_, index) => join(root, ...parts.slice(0, index + 1)));
  });
  return [...new Set(found)].sort();
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

/** A host folder, and its path `at` inside the sandbox. Neither path has a symlink in it. */
export interface Mount {
  readonly at: string;
  readonly host: string;
  /** A folder that we made for this sandbox alone. */
  readonly own?: boolean;
}

/** The paths of a sandbox and the host folders that they mean. A path that leads to no mount is refused. */
export interface Namespace {
  readonly mounts: readonly Mount[];
  /** Symlinks outside of the mounts, by path: their targets. */
  readonly links: ReadonlyMap<string, string>;
  /** Host folders that are hidden although they may lie in a mount. */
  readonly hidden: readonly string[];
  /** The owner of files that we make, where it is not the server's user. */
  readonly owner: Owner | undefined;
  /** Another spelling of a path that leads to no mount, for a sandbox whose paths are the host's own. */
  respell?(path: string): string | undefined;
}

interface NamespaceOptions {
  readonly hidden: readonly string[];
  readonly owner?: Owner | undefined;
}

/** The paths of a sandbox that mounts its folders: an absolute path means the same here as inside. */
export function toMountedNamespace(
  host: SandboxPaths & { readonly tmp: string },
  { hidden, owner }: NamespaceOptions,
): Namespace {
  return {
    mounts: [
      { at: PINNED.home, host: host.home, own: true },
      { at: PINNED.workspace, host: host.workspace, own: dirname(host.workspace) === dirname(host.home) },
      { at: PINNED.uploads, host: host.uploads, own: true },
      { at: "/tmp", host: host.tmp, own: true },
    ],
    links: new Map([
      ["/workspace", PINNED.workspace],
      [PINNED.outputs, join(PINNED.workspace, "output")],
      ["/var/tmp", "/tmp"],
    ]),
    hidden,
    owner,
  };
}

/** The paths of a sandbox that mounts nothing: they are the host's, and paths outside of its folders are refused. */
export function toHostNamespace(paths: SandboxPaths, { hidden, owner }: NamespaceOptions): Namespace {
  const mounts = [paths.workspace, paths.home, paths.uploads].map((path) => ({ at: path, host: path }));
  return { mounts, links: new Map(), hidden, owner, respell: (path) => respell(path, mounts) };
}

/** The real path of a path that leads to a mount by links of the host, such as /tmp on a Mac. It is looked up again. */
function respell(path: string, mounts: readonly Mount[]): string | undefined {
  const real = realpathOf(path) ?? toSibling(path);
  if (real === undefined || real === path) return undefined;
  return mounts.some(({ at }) => isInside(real, at)) ? real : undefined;
}

/** The path of a missing entry, by the real path of its folder. */
function toSibling(path: string): string | undefined {
  const folder = realpathOf(dirname(path));
  return folder === undefined ? undefined : join(folder, path.slice(path.lastIndexOf("/") + 1));
}

function realpathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

/** Fails where a link's target does not exist, in a sandbox with host paths: there the target need not be in a mount. */
export function demandTarget(namespace: Namespace, path: string): void {
  if (namespace.respell !== undefined && realpathOf(path) === undefined) throw fileError("ENOENT");
}
