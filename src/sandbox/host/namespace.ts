import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { SandboxPaths } from "../port.ts";
import { fileError } from "./open-file.ts";
import { isInside, PINNED } from "./mapping.ts";
import type { Owner } from "./owner.ts";

/** A host folder, and the path that a program inside has it under. Neither has a symlink in it. */
export interface Place {
  readonly at: string;
  readonly host: string;
}

/** What the paths of a sandbox mean on this host. A path that leads to none of the places has no meaning here. */
export interface Namespace {
  readonly places: readonly Place[];
  /** Symlinks that stand outside of the places. */
  readonly links: ReadonlyMap<string, string>;
  /** Host folders that are out of sight although they may lie in a place. */
  readonly hidden: readonly string[];
  /** Whose everything is that we make, where it is not ours. */
  readonly owner: Owner | undefined;
  /** Another spelling of a path that leads to no place, for a sandbox whose paths are the host's own. */
  respell?(path: string): string | undefined;
}

export interface NamespaceOptions {
  readonly hidden: readonly string[];
  readonly owner?: Owner | undefined;
}

/** The paths of a sandbox that mounts its folders: what is absolute means the same to us as to a program inside. */
export function toMountedNamespace(
  host: SandboxPaths & { readonly tmp: string },
  { hidden, owner }: NamespaceOptions,
): Namespace {
  return {
    places: [
      { at: PINNED.home, host: host.home },
      { at: PINNED.workspace, host: host.workspace },
      { at: PINNED.uploads, host: host.uploads },
      { at: "/tmp", host: host.tmp },
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

/** The paths of a sandbox that mounts nothing: they are the host's, and those outside of its folders are refused. */
export function toHostNamespace(paths: SandboxPaths, { hidden, owner }: NamespaceOptions): Namespace {
  const places = [paths.workspace, paths.home, paths.uploads].map((path) => ({ at: path, host: path }));
  return { places, links: new Map(), hidden, owner, respell: (path) => respell(path, places) };
}

/** The host may have links of its own on the way to a place, such as /tmp on a Mac. What is found is looked up again. */
function respell(path: string, places: readonly Place[]): string | undefined {
  const real = realpathOf(path) ?? toSibling(path);
  if (real === undefined || real === path) return undefined;
  return places.some(({ at }) => isInside(real, at)) ? real : undefined;
}

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

/** A link of the host's namespace that leads to nothing at all. */
export function demandTarget(namespace: Namespace, path: string): void {
  if (namespace.respell !== undefined && realpathOf(path) === undefined) throw fileError("ENOENT");
}
