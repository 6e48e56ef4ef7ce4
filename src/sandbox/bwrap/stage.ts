import { dirname, join, relative } from "node:path";
import { stat } from "../../disk/onTheSpot.ts";
import { isInside } from "../host/mapping.ts";
import type { Owner } from "../host/owner.ts";

/** Makes folders of the server reachable for a user who may not walk to them. */
export interface Stage {
  /** Goes before the command that needs them; it has to run as root. */
  readonly prefix: readonly string[];
  /** Where the command finds a path of the host. */
  at(path: string): string;
}

/** In a mount namespace of the command's own, so that nobody else sees it and nothing of it stays. */
const SCRIPT = `place=$1 count=$2 i=0
shift 2
if [ "$count" = 1 ] && [ -d "$1" ]; then
  mount --rbind "$1" "$place" || exit 125
  shift
  exec "$@"
fi
mount -t tmpfs -o mode=755,size=64k sluice "$place" || exit 125
while [ "$i" -lt "$count" ]; do
  if [ -d "$1" ]; then mkdir "$place/$i"; else : > "$place/$i"; fi
  mount --rbind "$1" "$place/$i" || exit 125
  shift
  i=$((i + 1))
done
exec "$@"`;

/** Empty folders that every distribution has; what is mounted on one is seen by the command alone. */
const PLACES = ["/mnt", "/media", "/srv", "/opt"];

export async function toStage(paths: readonly string[], owner: Owner | undefined): Promise<Stage> {
  const closed: string[] = [];
  for (const path of owner === undefined ? [] : withoutNested(paths)) {
    if (!(await isReachable(path, owner as Owner))) closed.push(path);
  }
  if (closed.length === 0) return { prefix: [], at: (path) => path };
  const place = await findPlace(paths);
  // One folder alone is mounted on the place itself: each mount is a program to start.
  const alone = closed.length === 1 && (await stat(closed[0] as string)).isDirectory();
  const unshare = ["unshare", "--mount", "--propagation", "private"];
  return {
    prefix: [...unshare, "/bin/sh", "-c", SCRIPT, "stage", place, String(closed.length), ...closed],
    at(path) {
      const index = closed.findIndex((root) => isInside(path, root));
      return index < 0
        ? path
        : join(place, alone ? "" : String(index), relative(closed[index] as string, path));
    },
  };
}

async function findPlace(paths: readonly string[]): Promise<string> {
  for (const place of PLACES) {
    const found = await stat(place).catch(() => undefined);
    if (found?.isDirectory() && !paths.some((path) => isInside(path, place))) return place;
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
