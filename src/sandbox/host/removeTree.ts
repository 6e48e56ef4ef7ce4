import { constants } from "node:fs";
import { chmod, lstat, open, readdir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;

/** Removes a file or a whole folder. It goes down through open folders, so no symlink can lead it out. */
export async function removeTree(path: string): Promise<void> {
  const found = await lstat(path).catch(absent);
  if (found === undefined) return;
  if (!found.isDirectory()) return unlink(path).catch(absent);
  // Package managers write-protect their caches, and a folder that cannot be written cannot be emptied.
  if ((found.mode & 0o700) !== 0o700) await chmod(path, 0o700);
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    const here = process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : path;
    for (const name of await readdir(here)) await removeTree(join(here, name));
  } finally {
    await handle.close();
  }
  await rmdir(path).catch(absent);
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}
