import { lstat, readdir, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { readFile, writeFile } from "../../disk/sync-files.ts";
import { diskReserve, type DiskState } from "./disk-reserve.ts";
import { isInside } from "./files/paths.ts";
import { readProcFile, toOpenFlags } from "./processes/procfs.ts";

const MB = 1024 * 1024;
/** A sandbox without a process is watched for this time only. */
const STARTING_MS = 10_000;
/** How often a sandbox is measured when its disks have lost little space. */
const SELDOM_MS = 30_000;

/** The sandbox, as its disk limit needs it. */
interface LimitedSandbox {
  /** Whether a process is alive, and so may write. */
  isNeeded(): Promise<boolean>;
  /** The processes that may hold files open. */
  members(): Promise<readonly number[]>;
  /** Freezes all its processes; returns the function that resumes them. */
  freeze(): Promise<() => Promise<void>>;
  onExceeded(verdict: string): Promise<void>;
}

export interface LimitedFolders {
  /** The folder of the sandbox. */
  readonly own: string;
  /** The workspace. Files from before the first start do not count. */
  readonly workspace: string;
  /** The output of its processes, which a relay outside of the sandbox writes. */
  readonly spools: string;
  /** Stores the size that the workspace had before the first start. */
  readonly baselineFile: string;
}

/** The default limit of a sandbox: large, but never most of the free space. */
export async function chooseDiskLimit(...folders: readonly string[]): Promise<number> {
  const free = await Promise.all(
    folders.map(async (folder) => {
      const found = await statfs(folder).catch(() => undefined);
      return found === undefined ? Infinity : found.bavail * found.bsize;
    }),
  );
  return Math.min(10 * 1024 * MB, Math.max(64 * MB, Math.floor(Math.min(...free) / 2)));
}

/** The disk limit of one sandbox: measures its usage and ends it when it takes more. */
export class DiskLimit {
  readonly #folders: LimitedFolders;
  readonly #sandbox: LimitedSandbox;
  #limit: number;
  #baseline: Promise<number> | undefined;
  #disks: readonly number[] | undefined;
  /** As last measured. */
  #usage = 0;
  /** The free bytes of each disk when the usage was last measured. */
  #free = new Map<number, number>();
  /** When the next measurement is due, even if the disks have lost little space. */
  #dueAt = 0;
  /** No measurement before this time: the last one was expensive. */
  #notBefore = 0;
  #watchedSince = 0;
  /** The usage at which the sandbox was ended. It may run again to delete files, but not grow further. */
  #tolerated = 0;
  #measuring: Promise<void> | undefined;

  constructor(folders: LimitedFolders, limit: number, sandbox: LimitedSandbox) {
    this.#folders = folders;
    this.#limit = limit;
    this.#sandbox = sandbox;
  }

  /** The same for every connection to one sandbox, so that the sandbox is watched once. */
  get name(): string {
    return this.#folders.own;
  }

  get folders(): readonly string[] {
    return [this.#folders.own, this.#folders.workspace];
  }

  get usage(): number {
    return this.#usage;
  }

  /** How many bytes the sandbox may still grow, at least 1 MB. */
  get slack(): number {
    return Math.max(MB, this.#allowed - this.#usage);
  }

  /** Watches a sandbox of an earlier server, which may still have running processes. */
  watch(): void {
    this.#watchedSince = performance.now();
    diskReserve.add(this);
  }

  /** Watches a sandbox that is about to start a process. */
  begin(): void {
    this.#baseline ??= this.#readBaseline();
    this.watch();
  }

  unwatch(): void {
    diskReserve.remove(this);
  }

  isNeeded(): Promise<boolean> {
    return this.#sandbox.isNeeded();
  }

  freeze(): Promise<() => Promise<void>> {
    return this.#sandbox.freeze();
  }

  /** The device of the sandbox's own folder; undefined before `disks` was called. */
  get ownDisk(): number | undefined {
    return this.#disks?.[0];
  }

  /** The devices of `folders`, in the same order. */
  async disks(): Promise<readonly number[]> {
    this.#disks ??= await Promise.all(this.folders.map(async (folder) => (await stat(folder)).dev));
    return this.#disks;
  }

  /**
   * Measures the usage if the sandbox may be over its limit: it cannot have grown by more than its disks have lost.
   * Also measures at intervals, because other programs may have freed the space that the sandbox took.
   */
  check(states: ReadonlyMap<number, DiskState>): void {
    if (this.#measuring !== undefined) return;
    let lost = 0;
    for (const [disk, { free }] of states) {
      if (this.#disks?.includes(disk)) lost += Math.max(0, (this.#free.get(disk) ?? free) - free);
    }
    const now = performance.now();
    if (now < this.#notBefore || (lost < this.slack && now < this.#dueAt)) return;
    this.#measuring = this.#judge(states)
      .catch(() => {})
      .finally(() => (this.#measuring = undefined));
  }

  /** The usage now, and its growth since the last measurement. */
  async measure(states: ReadonlyMap<number, DiskState>): Promise<{ usage: number; growth: number }> {
    const big = new Set<string>();
    const { own, workspace, spools } = this.#folders;
    const trees = [own, ...[workspace, spools].filter((folder) => !isInside(folder, own))];
    const sizes = await Promise.all(trees.map((tree) => measureTree(tree, { big })));
    const open = await measureOpenFiles(await this.#sandbox.members(), big);
    const before = this.#usage;
    const total = sizes.reduce((sum, size) => sum + size, open);
    this.#baseline ??= this.#readBaseline();
    this.#usage = Math.max(0, total - (await this.#baseline));
    this.#free = new Map([...states].map(([disk, { free }]) => [disk, free]));
    return { usage: this.#usage, growth: this.#usage - before };
  }

  /** The bytes that the sandbox's processes have written so far, to any file. */
  async written(): Promise<number> {
    return countWritten(await this.#sandbox.members());
  }

  /** Ends the sandbox to save the others. After a restart it cannot grow: its limit is now its usage. */
  async end(verdict: string): Promise<void> {
    this.#limit = Math.min(this.#limit, this.#usage);
    await this.#sandbox.onExceeded(verdict);
  }

  get #allowed(): number {
    return Math.max(this.#limit, this.#tolerated);
  }

  async #judge(states: ReadonlyMap<number, DiskState>): Promise<void> {
    const begun = performance.now();
    if (!(await this.isNeeded())) {
      this.#notBefore = begun + STARTING_MS / 10;
      if (begun - this.#watchedSince > STARTING_MS) this.unwatch();
      return;
    }
    const { usage } = await this.measure(states);
    const took = performance.now() - begun;
    this.#notBefore = performance.now() + took * 4;
    this.#dueAt = performance.now() + Math.max(SELDOM_MS, took * 50);
    if (usage <= this.#limit) this.#tolerated = 0;
    if (usage <= this.#allowed) return;
    this.#tolerated = Math.min(usage, 2 * this.#limit);
    this.unwatch();
    await this.#sandbox.onExceeded(`out of disk: limit ${Math.round(this.#limit / MB)} MB`);
  }

  /** The size of the workspace before the first start, kept for later servers. */
  async #readBaseline(): Promise<number> {
    const { baselineFile, workspace } = this.#folders;
    const known = await readFile(baselineFile, "utf8").catch(() => undefined);
    if (known !== undefined) return Number(known) || 0;
    const bytes = await measureTree(workspace, { madeBefore: Date.now() });
    await writeFile(baselineFile, String(bytes), { mode: 0o600 }).catch(() => {});
    return bytes;
  }
}

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
async function measureTree(
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
  // A walk ends when it finds no folder to take. The next round then shares the folders that other walks have found
  // since.
  while (folders.length > 0) await Promise.all(Array.from({ length: AT_ONCE }, walk));
  return bytes;
}

/**
 * The bytes of files that these processes hold open for writing and that no tree has counted, such as unlinked files.
 */
async function measureOpenFiles(pids: readonly number[], counted: Set<string>): Promise<number> {
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
async function countWritten(pids: readonly number[]): Promise<number> {
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
