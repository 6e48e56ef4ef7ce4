import { dirname, join, relative } from "node:path";
import { stat } from "../../disk/on-the-spot.ts";
import { isInside } from "../host/files/paths.ts";
import type { Owner } from "../host/owner.ts";

/** Bind mounts that make folders of the server reachable for a user without access to their parents. */
export interface PrivateMounts {
  /** The prefix of the command; it has to run as root. */
  readonly prefix: readonly string[];
  /** The path at which the command finds a path of the host. */
  at(path: string): string;
}

/** Mounts the paths in a mount namespace of the command's own. The mounts end with the command. */
const SCRIPT = `target=$1 count=$2 i=0
shift 2
if [ "$count" = 1 ] && [ -d "$1" ]; then
  mount --rbind "$1" "$target" || exit 125
  shift
  exec "$@"
fi
mount -t tmpfs -o mode=755,size=64k sluice "$target" || exit 125
while [ "$i" -lt "$count" ]; do
  if [ -d "$1" ]; then mkdir "$target/$i"; else : > "$target/$i"; fi
  mount --rbind "$1" "$target/$i" || exit 125
  shift
  i=$((i + 1))
done
exec "$@"`;

/** Folders that every distribution has, usually empty. Only the command sees the mount on one of them. */
const TARGETS = ["/mnt", "/media", "/srv", "/opt"];

export async function findPrivateMounts(
  paths: readonly string[],
  owner: Owner | undefined,
): Promise<PrivateMounts> {
  const closed: string[] = [];
  for (const path of owner === undefined ? [] : withoutNested(paths)) {
    if (!(await isReachable(path, owner as Owner))) closed.push(path);
  }
  if (closed.length === 0) return { prefix: [], at: (path) => path };
  const target = await findTarget(paths);
  // A single folder is mounted on the target itself, which saves the start of two programs.
  const isSingleFolder = closed.length === 1 && (await stat(closed[0] as string)).isDirectory();
  const unshare = ["unshare", "--mount", "--propagation", "private"];
  return {
    prefix: [...unshare, "/bin/sh", "-c", SCRIPT, "sh", target, String(closed.length), ...closed],
    at(path) {
      const index = closed.findIndex((root) => isInside(path, root));
      return index < 0
        ? path
        : join(target, isSingleFolder ? "" : String(index), relative(closed[index] as string, path));
    },
  };
}

async function findTarget(paths: readonly string[]): Promise<string> {
  for (const target of TARGETS) {
    const found = await stat(target).catch(() => undefined);
    if (found?.isDirectory() && !paths.some((path) => isInside(path, target))) return target;
  }
  return "/tmp";
}

async function isReachable(path: string, owner: Owner): Promise<boolean> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const { mode, uid, gid } = await stat(folder);
    const shift = uid === owner.uid ? 6 : gid === owner.gid ? 3 : 0;
    if (((mode >> shift) & 1) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

function withoutNested(paths: readonly string[]): string[] {
  return [...new Set(paths)].filter(
    (path) => !paths.some((other) => other !== path && isInside(path, other)),
  );
}
