import { lstat, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { readProcFile, toOpenFlags } from "../processes/procfs.ts";

/** The least cost of an entry: its inode and its name are not in its blocks. */
const ENTRY_BYTES = 4_096;
/** Smaller open files are not counted. */
const BIG_BYTES = 1024 * 1024;
/** How many folders of one tree are read at the same time. */
const AT_ONCE = 8;
const O_WRONLY_OR_RDWR = 0o3;

interface MeasureOptions {
  /** A time; entries that were made later do not count. */
  readonly madeBefore?: number;
  /** Collects the big files of the tree, so that they are not counted again as open ones. */
  readonly big?: Set<string>;
}

/** The bytes that a tree takes on its disk. Other disks that are mounted in the tree are left out. */
export async function measureTree(
  root: string,
  { madeBefore = Infinity, big }: MeasureOptions = {},
): Promise<number> {
  const top = await lstat(root).catch(() => undefined);
  if (top === undefined) return 0;
  const linked = new Set<number>();
  const folders = [root];
  let bytes = 0;
  const measure = async (path: string): Promise<boolean> => {
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
        if (await measure(path)) folders.push(path);
      }
    }
  };
  // A walk that finds no folder ends early; the next round shares the folders that the other walks found since.
  while (folders.length > 0) await Promise.all(Array.from({ length: AT_ONCE }, walk));
  return bytes;
}

/**
 * The bytes of files that these processes hold open for writing and that no tree has counted, such as unlinked files.
 */
export async function measureOpenFiles(pids: readonly number[], counted: Set<string>): Promise<number> {
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

/** The bytes that these processes have written, to files, pipes and sockets. */
export async function countWritten(pids: readonly number[]): Promise<number> {
  let bytes = 0;
  for (const pid of pids) {
    const io = await readProcFile(`/proc/${pid}/io`);
    bytes += Number(/^wchar: (\d+)$/m.exec(io ?? "")?.[1] ?? 0);
  }
  return bytes;
}

/** An unlinked file always counts: a descriptor of any mode keeps its space taken. */
async function isWritable(pid: number, fd: string, links: number): Promise<boolean> {
  if (links === 0) return true;
  const info = await readProcFile(`/proc/${pid}/fdinfo/${fd}`);
  return (toOpenFlags(info ?? "") & O_WRONLY_OR_RDWR) !== 0;
}
