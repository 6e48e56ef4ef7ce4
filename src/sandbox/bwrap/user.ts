import { createHash } from "node:crypto";
import { readFile, stat } from "../../disk/onTheSpot.ts";
import type { Owner } from "../host/owner.ts";

/** No distribution hands these out, neither to users nor to containers. */
const FIRST_UID = 1_900_000_000;
const UIDS = 200_000_000;

/**
 * Who the processes of a sandbox run as when the server is root: the owner of the directory that they work in,
 * else a user that nobody else is. undefined where it is the server's own user.
 */
export async function toOwner(key: string, directory: string | undefined): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  if (directory !== undefined) {
    const { uid, gid } = await stat(directory);
    return uid === 0 ? undefined : { uid, gid };
  }
  const number = createHash("sha256").update(key).digest().readUInt32BE();
  const uid = FIRST_UID + (number % UIDS);
  // A container may have fewer users than that.
  return (await isMapped(uid)) ? { uid, gid: uid } : undefined;
}

async function isMapped(uid: number): Promise<boolean> {
  if (process.platform !== "linux") return false;
  // Not caught: whoever cannot tell must not run an agent as root for it.
  const map = await readFile("/proc/self/uid_map", "utf8");
  return map
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .some(([first = 0, , count = 0]) => uid >= first && uid < first + count);
}
