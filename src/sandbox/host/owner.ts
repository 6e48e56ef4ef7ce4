import { lchown, lstat, readdir, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

/** The user that a sandbox's files belong to, where it is not the one that the server runs as. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Gives away a file or folder that we have just made; one that somebody else owns already stays theirs. */
export async function giveFile(handle: FileHandle, owner: Owner | undefined): Promise<void> {
  if (owner === undefined) return;
  const { uid, nlink, isDirectory } = await lookAt(handle);
  if (uid !== process.geteuid?.() || (nlink > 1 && !isDirectory)) return;
  await handle.chown(owner.uid, owner.gid);
}

/** Gives away a tree that nobody else can reach yet. */
export async function giveTree(path: string, owner: Owner | undefined): Promise<void> {
  if (owner === undefined) return;
  await lchown(path, owner.uid, owner.gid);
  if (!(await lstat(path)).isDirectory()) return;
  for (const name of await readdir(path)) await giveTree(join(path, name), owner);
}

async function lookAt(handle: FileHandle): Promise<{ uid: number; nlink: number; isDirectory: boolean }> {
  const found = await handle.stat();
  return { uid: found.uid, nlink: found.nlink, isDirectory: found.isDirectory() };
}
