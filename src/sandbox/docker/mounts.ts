import type { MountSettings } from "dockerode";
import { dirname, join, relative } from "node:path";
import type { Bridge } from "../bridge/bridge.ts";
import { foldersBetween, isInside, PINNED } from "../host/mapping.ts";
import type { SandboxPaths } from "../port.ts";
import { hostNode, type Image } from "./image.ts";

export interface MountSources {
  readonly host: SandboxPaths;
  readonly tmp: string;
  readonly passwd: string;
  readonly group: string;
  /** Where the uploads are mounted in, beside the link to the outputs. */
  readonly session: string;
  readonly needs: readonly string[];
  /** A folder with nothing in it. */
  readonly empty: string;
  /** Folders of this host that stay out of sight although the workspace may hold them. */
  readonly hide: readonly string[];
  readonly bridge: Bridge;
  readonly image: Image;
}

/** All that a container sees of this host. What the image has itself is never hidden by the host's. */
export async function toMounts(sources: MountSources): Promise<MountSettings[]> {
  const { host, image } = sources;
  const node = await image.node();
  const bridge = sources.bridge.needs.filter(({ host }) => node === undefined || host !== hostNode());
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
    ...bridge.map(({ host, inside, writable }) => toMount(host, inside, !writable)),
    ...missing
      .filter((path) => !bridge.some(({ inside }) => inside === path))
      .map((path) => toMount(path, path, true)),
    // Each folder above a hidden one is a mount of its own: it cannot be moved away with what it hides.
    ...[...new Set(hidden.flatMap((path) => foldersBetween(host.workspace, path)))]
      .sort()
      .map((path) => toMount(path, join(PINNED.workspace, relative(host.workspace, path)))),
    ...hidden
      .flatMap((path) =>
        [PINNED.workspace, "/workspace"].map((root) => join(root, relative(host.workspace, path))),
      )
      // Not a tmpfs, into which Podman would copy what it hides.
      .map((path) => toMount(sources.empty, path, true)),
  ];
}

function toMount(Source: string, Target: string, ReadOnly = false): MountSettings {
  return { Type: "bind", Source, Target, ReadOnly };
}

function outermost(paths: readonly string[]): string[] {
  return paths.filter((path) => !paths.some((other) => other !== path && isInside(path, other)));
}
