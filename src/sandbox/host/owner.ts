import { createHash } from "node:crypto";
import { readFile, stat } from "../../disk/on-the-spot.ts";

/** The user that a sandbox's files belong to, where it is not the server's own. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** The uid of a sandbox's files on this host. */
export function ownerUid(owner: Owner | undefined): number | undefined {
  return owner?.uid ?? process.geteuid?.();
}

/** A range of uids that no distribution assigns to users or containers. */
const FIRST_UID = 1_900_000_000;
const UIDS = 200_000_000;

/**
 * The user of a sandbox's processes when the server is root: the owner of the directory that they work in, else a user
 * of the sandbox's own. Undefined where they run as the server's user.
 */
export async function findOwner(key: string, directory: string | undefined): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  if (directory !== undefined) {
    const { uid, gid } = await stat(directory);
    return uid === 0 ? undefined : { uid, gid };
  }
  const number = createHash("sha256").update(key).digest().readUInt32BE();
  const uid = FIRST_UID + (number % UIDS);
  // If the server itself runs in a container, this uid may not exist there.
  return (await isMapped(uid)) ? { uid, gid: uid } : undefined;
}

async function isMapped(uid: number): Promise<boolean> {
  if (process.platform !== "linux") return false;
  // A failure is not caught: with an unreadable map an agent must not run as root.
  const map = await readFile("/proc/self/uid_map", "utf8");
  return map
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .some(([first = 0, , count = 0]) => uid >= first && uid < first + count);
}
