import { dirname, join, relative } from "node:path";
import type { MountSettings } from "dockerode";
import type { Egress } from "../egress/egress.ts";
import { foldersBetween, isInside, PINNED } from "../host/files/paths.ts";
import type { SandboxPaths } from "../port.ts";
import { hostNode, type Image } from "./image.ts";

export interface MountSources {
  readonly host: SandboxPaths;
  readonly tmp: string;
  readonly passwd: string;
  readonly group: string;
  /** The folder at /mnt/session: it has the link to the outputs, and the uploads are mounted in it. */
  readonly session: string;
  readonly needs: readonly string[];
  /** An empty folder, which covers hidden ones. */
  readonly empty: string;
  /** Folders of this host that no container sees, even if they lie in the workspace. */
  readonly hide: readonly string[];
  readonly egress: Egress;
  readonly image: Image;
}

/** Everything that a container sees of this host. The host's files never hide the image's own. */
export async function planMounts(sources: MountSources): Promise<MountSettings[]> {
  const { host, image } = sources;
  const node = await image.node();
  const egress = sources.egress.needs.filter(({ host }) => node === undefined || host !== hostNode());
  const having = await image.having(sources.needs);
  const missing = outermost(sources.needs.filter((path) => !having.has(path)));
  const hidden = outermost(sources.hide).filter(
    (path) => path !== host.workspace && isInside(path, host.workspace),
  );
  return [
    toMount(host.home, PINNED.home),
    toMount(host.workspace, PINNED.workspace),
    toMount(host.workspace, "/workspace"),
    toMount(sources.session, dirname(PINNED.uploads), true),
    toMount(host.uploads, PINNED.uploads),
    toMount(sources.tmp, "/tmp"),
    toMount(sources.passwd, "/etc/passwd", true),
    toMount(sources.group, "/etc/group", true),
    ...egress.map(({ host, inside, writable }) => toMount(host, inside, !writable)),
    ...missing
      .filter((path) => !egress.some(({ inside }) => inside === path))
      .map((path) => toMount(path, path, true)),
    // Each folder above a hidden one is a mount of its own, so that an agent cannot move it and uncover the hidden one.
    ...[...new Set(hidden.flatMap((path) => foldersBetween(host.workspace, path)))]
      .sort()
      .map((path) => toMount(path, join(PINNED.workspace, relative(host.workspace, path)))),
    ...hidden
      .flatMap((path) =>
        [PINNED.workspace, "/workspace"].map((root) => join(root, relative(host.workspace, path))),
      )
      // Not a tmpfs: Podman would copy the hidden files into it.
      .map((path) => toMount(sources.empty, path, true)),
  ];
}

function toMount(Source: string, Target: string, ReadOnly = false): MountSettings {
  return { Type: "bind", Source, Target, ReadOnly };
}

function outermost(paths: readonly string[]): string[] {
  return paths.filter((path) => !paths.some((other) => other !== path && isInside(path, other)));
}
