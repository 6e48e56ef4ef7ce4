import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { open, statfs, unlink, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";

const MB = 1024 * 1024;
/** The highest speed at which a disk or memory fills, in bytes and files per millisecond. */
const FASTEST_BYTES = 8 * MB;
const FASTEST_FILES = 500;
const OFTEN_MS = 10;
const SELDOM_MS = 500;
const SEARCH_AGAIN_MS = 5_000;
const BALLAST_BYTES = 16 * MB;
/** A sandbox that grew by less is not the cause of a full disk. */
const INNOCENT_BYTES = 4 * MB;

/** A sandbox with a disk limit, as the reserve needs it. */
interface WatchedSandbox {
  readonly name: string;
  readonly folders: readonly string[];
  readonly usage: number;
  readonly slack: number;
  readonly ownDisk: number | undefined;
  disks(): Promise<readonly number[]>;
  check(states: ReadonlyMap<number, DiskState>): void;
  measure(states: ReadonlyMap<number, DiskState>): Promise<{ usage: number; growth: number }>;
  written(): Promise<number>;
  freeze(): Promise<() => Promise<void>>;
  end(verdict: string): Promise<void>;
}

/** One disk, by the number of its device. */
export interface DiskState {
  /** Bytes that this user may still write. */
  readonly free: number;
  readonly total: number;
  readonly freeFiles: number;
  readonly totalFiles: number;
}

/**
 * Watches the free space of the disks that sandboxes write to, more often when less is left. A part of it, the reserve,
 * belongs to the log. When less than the reserve is free, the sandbox that grew most is ended, so that the log and the
 * other sandboxes can still write.
 */
class DiskReserve {
  readonly #sandboxes = new Map<string, WatchedSandbox>();
  /** The reserve of each disk, smaller on a disk that was nearly full already. */
  readonly #reserves = new Map<number, ReserveSize>();
  /** For each disk, the time before which no culprit is searched for again, after a search without a result. */
  readonly #searchAfter = new Map<number, number>();
  readonly #ballast = new Map<number, Promise<Ballast | undefined>>();
  #timer: NodeJS.Timeout | undefined;
  #isChecking = false;

  add(sandbox: WatchedSandbox): void {
    if (this.#sandboxes.has(sandbox.name)) return;
    this.#sandboxes.set(sandbox.name, sandbox);
    if (!this.#isChecking) this.#schedule(0);
  }

  remove(sandbox: WatchedSandbox): void {
    if (this.#sandboxes.get(sandbox.name) === sandbox) this.#sandboxes.delete(sandbox.name);
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#sandboxes.size === 0) return void this.#releaseAll().catch(() => {});
    this.#timer = setTimeout(() => void this.#checkNow(), ms).unref();
  }

  async #checkNow(): Promise<void> {
    this.#isChecking = true;
    const nextMs = await this.#check().catch(() => SELDOM_MS);
    this.#isChecking = false;
    this.#schedule(nextMs);
  }

  /** Checks every disk and sandbox once; returns the milliseconds until the next check. */
  async #check(): Promise<number> {
    const states = await this.#read(this.#sandboxes.values());
    let next = SELDOM_MS;
    for (const [disk, state] of states) {
      const reserve = this.#reserveOf(disk, state);
      if (state.free < reserve.bytes || state.freeFiles < reserve.files) {
        if (performance.now() < (this.#searchAfter.get(disk) ?? 0)) continue;
        if (!(await this.#relieve(disk, states)))
          this.#searchAfter.set(disk, performance.now() + SEARCH_AGAIN_MS);
        return OFTEN_MS;
      }
      const files = (state.freeFiles - reserve.files) / FASTEST_FILES;
      next = Math.min(next, files, (state.free - reserve.bytes) / FASTEST_BYTES);
    }
    for (const sandbox of this.#sandboxes.values()) {
      sandbox.check(states);
      next = Math.min(next, Math.max(100, sandbox.slack / FASTEST_BYTES));
    }
    return Math.max(OFTEN_MS, next);
  }

  async #read(sandboxes: Iterable<WatchedSandbox>): Promise<Map<number, DiskState>> {
    const folders = new Map<number, string>();
    for (const sandbox of sandboxes) {
      const disks = await sandbox.disks().catch(() => []);
      for (const [index, disk] of disks.entries()) folders.set(disk, sandbox.folders[index] as string);
    }
    const states = [...folders].map(async ([disk, folder]) => {
      const found = await statfs(folder).catch(() => undefined);
      if (found === undefined) return [];
      const { bavail, bsize, blocks, ffree, files } = found;
      const free = bavail * bsize;
      const freeFiles = files === 0 ? Infinity : ffree;
      return [[disk, { free, total: blocks * bsize, freeFiles, totalFiles: files }] as const];
    });
    return new Map((await Promise.all(states)).flat());
  }

  #reserveOf(disk: number, state: DiskState): ReserveSize {
    const wanted = toReserveSize(state);
    const isShort = state.free < 1.5 * wanted.bytes || state.freeFiles < 1.5 * wanted.files;
    const reserve = isShort ? (this.#reserves.get(disk) ?? halve(wanted, state)) : wanted;
    this.#reserves.set(disk, reserve);
    if (!isShort) this.#takeBallast(disk, wanted);
    return reserve;
  }

  /** Takes ballast only on the disk of the sandboxes' own folders, which is the log's disk. */
  #takeBallast(disk: number, { bytes }: ReserveSize): void {
    if (this.#ballast.has(disk)) return;
    for (const sandbox of this.#sandboxes.values()) {
      if (sandbox.ownDisk !== disk) continue;
      const folder = dirname(sandbox.name);
      return void this.#ballast.set(disk, Ballast.take(folder, Math.min(BALLAST_BYTES, bytes / 4)));
    }
  }

  async #release(disk: number): Promise<void> {
    const ballast = this.#ballast.get(disk);
    this.#ballast.delete(disk);
    await (await ballast)?.release().catch(() => {});
  }

  async #releaseAll(): Promise<void> {
    for (const disk of this.#ballast.keys()) await this.#release(disk);
  }

  /**
   * Freezes all sandboxes on the disk, ends those that filled it, and resumes the others. Returns false if other
   * programs filled the disk.
   */
  async #relieve(disk: number, states: ReadonlyMap<number, DiskState>): Promise<boolean> {
    const state = states.get(disk) as DiskState;
    const reserve = this.#reserves.get(disk) ?? toReserveSize(state);
    const there: WatchedSandbox[] = [];
    for (const sandbox of this.#sandboxes.values()) {
      const disks: readonly number[] = await sandbox.disks().catch(() => []);
      if (disks.includes(disk)) there.push(sandbox);
    }
    const resumes = await Promise.all(there.map((sandbox) => sandbox.freeze().catch(() => async () => {})));
    const culprits = new Set(await findCulprits(there, states, { state, reserve }));
    const verdict = `out of disk: only ${Math.round(state.free / MB)} MB were left on the disk for all`;
    // The log gets this space: the sandboxes are still frozen.
    if (state.free < BALLAST_BYTES) await this.#release(disk);
    for (const sandbox of culprits) {
      this.remove(sandbox);
      await sandbox.end(verdict).catch(() => {});
    }
    for (const [index, sandbox] of there.entries()) {
      if (!culprits.has(sandbox)) await resumes[index]?.().catch(() => {});
    }
    // The files of an ended sandbox stay and the disk stays short, so the reserve shrinks.
    const now = (await this.#read(there)).get(disk) ?? state;
    this.#reserves.set(disk, halve(reserve, now));
    return culprits.size > 0;
  }
}

/** The free space of a disk that belongs to the log. */
interface ReserveSize {
  readonly bytes: number;
  readonly files: number;
}

/** A twentieth of the disk, with a lower bound for small disks and an upper bound for large ones. */
function toReserveSize({ total, totalFiles }: DiskState): ReserveSize {
  return {
    bytes: Math.min(1024 * MB, Math.max(total / 20, Math.min(total / 2, 256 * MB))),
    files: Math.min(50_000, Math.max(totalFiles / 20, Math.min(totalFiles / 2, 20_000))),
  };
}

/** A smaller reserve: half of the free space at most. It is never zero, because a full disk has to be noticed too. */
function halve(reserve: ReserveSize, state: DiskState): ReserveSize {
  const least = toReserveSize(state);
  return {
    bytes: Math.max(least.bytes / 64, Math.min(reserve.bytes, state.free / 2)),
    files: Math.max(least.files / 64, Math.min(reserve.files, state.freeFiles / 2)),
  };
}

/** The sandboxes that grew most since they were last measured; none where other programs fill the disk. */
async function findCulprits(
  sandboxes: readonly WatchedSandbox[],
  states: ReadonlyMap<number, DiskState>,
  { state, reserve }: { state: DiskState; reserve: ReserveSize },
): Promise<WatchedSandbox[]> {
  const growths = new Map<WatchedSandbox, number>();
  for (const sandbox of sandboxes) {
    growths.set(sandbox, (await sandbox.measure(states).catch(() => undefined))?.growth ?? 0);
  }
  const wanted = toReserveSize(state);
  const least = Math.max(reserve.bytes / 16, wanted.bytes / 128);
  const grown = selectLargest(sandboxes, (sandbox) => growths.get(sandbox) ?? 0, least);
  const isDire = state.free < wanted.bytes / 16 || state.freeFiles < wanted.files / 16;
  if (grown.length > 0 || !isDire) return grown;
  const large = selectLargest(sandboxes, (sandbox) => sandbox.usage, wanted.bytes / 16);
  if (large.length > 0) return large;
  // A sandbox can hide files from the measurement. The sandbox that has written most is ended, to save the log.
  const written = new Map<WatchedSandbox, number>();
  for (const sandbox of sandboxes) written.set(sandbox, await sandbox.written().catch(() => 0));
  return selectLargest(sandboxes, (sandbox) => written.get(sandbox) ?? 0, wanted.bytes / 16);
}

/** The sandbox with the largest amount, and all that have at least a quarter of it; none below `least`. */
function selectLargest(
  sandboxes: readonly WatchedSandbox[],
  amountOf: (sandbox: WatchedSandbox) => number,
  least: number,
): WatchedSandbox[] {
  const most = Math.max(0, ...sandboxes.map(amountOf));
  return most < Math.max(least, INNOCENT_BYTES)
    ? []
    : sandboxes.filter((sandbox) => amountOf(sandbox) >= most / 4);
}

export const diskReserve = new DiskReserve();

const CHUNK = 1024 * 1024;

/**
 * Space on the log's disk, taken by an unlinked file while there is plenty and released in an emergency. The kernel
 * releases it when this process ends.
 */
class Ballast {
  readonly #file: FileHandle;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Undefined where the disk does not give the space. */
  static async take(folder: string, bytes: number): Promise<Ballast | undefined> {
    const path = join(folder, `.ballast-${randomBytes(8).toString("hex")}`);
    const { O_CREAT, O_EXCL, O_WRONLY } = constants;
    const file = await open(path, O_CREAT | O_EXCL | O_WRONLY, 0o600).catch(() => undefined);
    if (file === undefined) return undefined;
    try {
      await unlink(path);
      // Random bytes: a file system cannot compress them.
      const chunk = randomBytes(CHUNK);
      for (let at = 0; at < bytes; at += CHUNK) await file.write(chunk, 0, Math.min(CHUNK, bytes - at), at);
      return new Ballast(file);
    } catch {
      await file.close();
      return undefined;
    }
  }

  release(): Promise<void> {
    return this.#file.close();
  }
}
