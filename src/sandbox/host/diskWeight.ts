import { lstat, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { readProcFile } from "./procfs.ts";

/** What an entry costs at least: its inode and its name are not in its blocks. */
const ENTRY_BYTES = 4_096;
/** Open files below this size are not worth a look. */
const BIG_BYTES = 1024 * 1024;
/** How many folders of one tree are read at the same time. */
const AT_ONCE = 8;
const O_WRONLY_OR_RDWR = 0o3;

export interface Weighing {
  /** Entries made later do not count. */
  readonly madeBefore?: number;
  /** Gets the big files of the tree, so that they are not counted once more as open ones. */
  readonly big?: Set<string>;
}

/** The bytes that a tree takes on its disk. Other disks that are mounted in it are left out. */
export async function weighTree(
  root: string,
  { madeBefore = Infinity, big }: Weighing = {},
): Promise<number> {
  const top = await lstat(root).catch(() => undefined);
  if (top === undefined) return 0;
  const linked = new Set<number>();
  const folders = [root];
  let bytes = 0;
  const weigh = async (path: string): Promise<boolean> => {
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined || found.dev !== top.dev) return false;
    if (found.birthtimeMs < madeBefore && !linked.has(found.ino)) {
      const size = Math.max(ENTRY_BYTES, found.blocks * 512);
      bytes += size;
      if (size >= BIG_BYTES) big?.add(`${found.dev}:${found.ino}`);
    }
    if (found.nlink > 1 && !found.isDirectory()) linked.add(found.ino);
    return found.isDirectory();
  };
  const walk = async (): Promise<void> => {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for (const name of await readdir(folder).catch(() => [])) {
        const path = join(folder, name);
        if (await weigh(path)) folders.push(path);
      }
    }
  };
  // Whoever finds nothing to do ends; the next round has the folders that the others have found since.
  while (folders.length > 0) await Promise.all(Array.from({ length: AT_ONCE }, walk));
  return bytes;
}

/** The bytes of files that these processes hold open to write and that no tree has: unlinked ones, and their output. */
export async function weighOpenFiles(pids: readonly number[], counted: Set<string>): Promise<number> {
  let bytes = 0;
  for (const pid of pids) {
    for (const fd of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
      const found = await stat(`/proc/${pid}/fd/${fd}`).catch(() => undefined);
      if (!found?.isFile() || found.blocks * 512 < BIG_BYTES) continue;
      const name = `${found.dev}:${found.ino}`;
      if (counted.has(name) || !(await isWritable(pid, fd, found.nlink))) continue;
      counted.add(name);
      bytes += found.blocks * 512;
    }
  }
  return bytes;
}

/** What these processes have handed to the kernel to write. */
export async function countWritten(pids: readonly number[]): Promise<number> {
  let bytes = 0;
  for (const pid of pids) {
    const io = await readProcFile(`/proc/${pid}/io`);
    bytes += Number(/^wchar: (\d+)$/m.exec(io ?? "")?.[1] ?? 0);
  }
  return bytes;
}

/** An unlinked file is held whoever opened it how. */
async function isWritable(pid: number, fd: string, links: number): Promise<boolean> {
  if (links === 0) return true;
  const info = await readProcFile(`/proc/${pid}/fdinfo/${fd}`);
  const flags = /^flags:\s*([0-7]+)/m.exec(info ?? "")?.[1] ?? "0";
  return (Number.parseInt(flags, 8) & O_WRONLY_OR_RDWR) !== 0;
}
