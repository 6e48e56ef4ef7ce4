import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { Ballast } from "./ballast.ts";
import type { DiskGuard } from "./diskGuard.ts";

const MB = 1024 * 1024;
/** No disk or memory is filled faster, in bytes per millisecond. */
const FASTEST = 8 * MB;
const FASTEST_FILES = 500;
const OFTEN_MS = 10;
const SELDOM_MS = 500;
const VAIN_MS = 5_000;
const BALLAST_BYTES = 16 * MB;
/** A sandbox with less than this has not filled a disk: somebody else has. */
const INNOCENT_BYTES = 4 * MB;

export interface DiskState {
  /** Bytes that are left for this user. */
  readonly free: number;
  readonly total: number;
  readonly freeFiles: number;
  readonly totalFiles: number;
}

/**
 * Looks at the free space of the disks that sandboxes write to, the more often the less there is. What is left below
 * the reserve belongs to the log: who was growing most is ended then, before anybody else cannot write any more.
 */
class DiskWarden {
  readonly #guards = new Map<string, DiskGuard>();
  /** What may be left of a disk at least; lower where it was short already. */
  readonly #reserves = new Map<number, Reserve>();
  /** Until when it makes no sense to ask again who took it. */
  readonly #vain = new Map<number, number>();
  readonly #ballast = new Map<number, Promise<Ballast | undefined>>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  add(guard: DiskGuard): void {
    if (this.#guards.has(guard.name)) return;
    this.#guards.set(guard.name, guard);
    if (!this.#isLooking) this.#again(0);
  }

  remove(guard: DiskGuard): void {
    if (this.#guards.get(guard.name) === guard) this.#guards.delete(guard.name);
  }

  #again(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#guards.size === 0) return void this.#releaseAll().catch(() => {});
    this.#timer = setTimeout(() => void this.#lookNow(), ms).unref();
  }

  async #lookNow(): Promise<void> {
    this.#isLooking = true;
    const next = await this.#look().catch(() => SELDOM_MS);
    this.#isLooking = false;
    this.#again(next);
  }

  /** When to look again. */
  async #look(): Promise<number> {
    const states = await this.#read(this.#guards.values());
    let next = SELDOM_MS;
    for (const [disk, state] of states) {
      const reserve = this.#reserveOf(disk, state);
      if (state.free < reserve.bytes || state.freeFiles < reserve.files) {
        if (performance.now() < (this.#vain.get(disk) ?? 0)) continue;
        if (!(await this.#relieve(disk, states))) this.#vain.set(disk, performance.now() + VAIN_MS);
        return OFTEN_MS;
      }
      const files = (state.freeFiles - reserve.files) / FASTEST_FILES;
      next = Math.min(next, files, (state.free - reserve.bytes) / FASTEST);
    }
    for (const guard of this.#guards.values()) {
      guard.look(states);
      next = Math.min(next, Math.max(100, guard.slack / FASTEST));
    }
    return Math.max(OFTEN_MS, next);
  }

  async #read(guards: Iterable<DiskGuard>): Promise<Map<number, DiskState>> {
    const folders = new Map<number, string>();
    for (const guard of guards) {
      const disks = await guard.disks().catch(() => []);
      for (const [index, disk] of disks.entries()) folders.set(disk, guard.folders[index] as string);
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

  #reserveOf(disk: number, state: DiskState): Reserve {
    const wanted = toReserve(state);
    const isShort = state.free < 1.5 * wanted.bytes || state.freeFiles < 1.5 * wanted.files;
    const reserve = isShort ? (this.#reserves.get(disk) ?? halve(wanted, state)) : wanted;
    this.#reserves.set(disk, reserve);
    if (!isShort) this.#takeBallast(disk, wanted);
    return reserve;
  }

  /** Only where the sandboxes' own folders are: that is the log's disk. */
  #takeBallast(disk: number, { bytes }: Reserve): void {
    if (this.#ballast.has(disk)) return;
    for (const guard of this.#guards.values()) {
      if (guard.ownDisk !== disk) continue;
      const folder = dirname(guard.name);
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

  /** All who can write there stand still while it is found out who took it. False where it was nobody of them. */
  async #relieve(disk: number, states: ReadonlyMap<number, DiskState>): Promise<boolean> {
    const state = states.get(disk) as DiskState;
    const reserve = this.#reserves.get(disk) ?? toReserve(state);
    const there: DiskGuard[] = [];
    for (const guard of this.#guards.values()) {
      const disks: readonly number[] = await guard.disks().catch(() => []);
      if (disks.includes(disk)) there.push(guard);
    }
    const resumes = await Promise.all(there.map((guard) => guard.freeze().catch(() => async () => {})));
    const culprits = new Set(await findCulprits(there, states, { state, reserve }));
    const verdict = `out of disk: only ${Math.round(state.free / MB)} MB were left on the disk for all`;
    // Before the log needs it; those who would take it stand still.
    if (state.free < BALLAST_BYTES) await this.#release(disk);
    for (const guard of culprits) {
      this.remove(guard);
      await guard.end(verdict).catch(() => {});
    }
    for (const [index, guard] of there.entries()) {
      if (!culprits.has(guard)) await resumes[index]?.().catch(() => {});
    }
    // The files of who was ended stay, so what is left now has to do.
    const now = (await this.#read(there)).get(disk) ?? state;
    this.#reserves.set(disk, halve(reserve, now));
    return culprits.size > 0;
  }
}

interface Reserve {
  readonly bytes: number;
  readonly files: number;
}

/** A twentieth, but enough to act in on a small disk and not more than is of use on a large one. */
function toReserve({ total, totalFiles }: DiskState): Reserve {
  return {
    bytes: Math.min(1024 * MB, Math.max(total / 20, Math.min(total / 2, 256 * MB))),
    files: Math.min(50_000, Math.max(totalFiles / 20, Math.min(totalFiles / 2, 20_000))),
  };
}

/** Never nothing: a disk that is full has to be noticed as well. */
function halve(reserve: Reserve, state: DiskState): Reserve {
  const least = toReserve(state);
  return {
    bytes: Math.max(least.bytes / 64, Math.min(reserve.bytes, state.free / 2)),
    files: Math.max(least.files / 64, Math.min(reserve.files, state.freeFiles / 2)),
  };
}

/** Who has grown most since the last look, and whoever comes near it. Nobody where others than sandboxes fill the disk. */
async function findCulprits(
  guards: readonly DiskGuard[],
  states: ReadonlyMap<number, DiskState>,
  { state, reserve }: { state: DiskState; reserve: Reserve },
): Promise<DiskGuard[]> {
  const growths = new Map<DiskGuard, number>();
  for (const guard of guards) {
    growths.set(guard, (await guard.weigh(states).catch(() => undefined))?.growth ?? 0);
  }
  const wanted = toReserve(state);
  const least = Math.max(reserve.bytes / 16, wanted.bytes / 128);
  const grown = toFirst(guards, (guard) => growths.get(guard) ?? 0, least);
  const isDire = state.free < wanted.bytes / 16 || state.freeFiles < wanted.files / 16;
  if (grown.length > 0 || !isDire) return grown;
  const heavy = toFirst(guards, (guard) => guard.weight, wanted.bytes / 16);
  if (heavy.length > 0) return heavy;
  // Files can be held where nobody sees them; then whoever has written most is ended, for the log's sake.
  const written = new Map<DiskGuard, number>();
  for (const guard of guards) written.set(guard, await guard.written().catch(() => 0));
  return toFirst(guards, (guard) => written.get(guard) ?? 0, wanted.bytes / 16);
}

/** The first by this measure, and all that have at least a quarter of it. */
function toFirst(guards: readonly DiskGuard[], of: (guard: DiskGuard) => number, least: number): DiskGuard[] {
  const most = Math.max(0, ...guards.map(of));
  return most < Math.max(least, INNOCENT_BYTES) ? [] : guards.filter((guard) => of(guard) >= most / 4);
}

export const diskWarden = new DiskWarden();
