import { stat, statfs } from "node:fs/promises";
import { readFile, writeFile } from "../../disk/onTheSpot.ts";
import { diskWarden, type DiskState } from "./diskWarden.ts";
import { countWritten, weighOpenFiles, weighTree } from "./diskWeight.ts";
import { isInside } from "./mapping.ts";

const MB = 1024 * 1024;
/** How long nobody may be there after a start was announced. */
const STARTING_MS = 10_000;
/** How often somebody is weighed who cannot have grown much. */
const SELDOM_MS = 30_000;

export interface DiskWatch {
  /** Whether somebody may write. */
  isNeeded(): Promise<boolean>;
  /** Who may hold files open. */
  members(): Promise<readonly number[]>;
  /** Stops all of them; answers how they go on. */
  freeze(): Promise<() => Promise<void>>;
  onExceeded(verdict: string): Promise<void>;
}

export interface GuardedFolders {
  /** All that the sandbox has of its own. */
  readonly own: string;
  /** Where it works; what was there before its first start is not held against it. */
  readonly workspace: string;
  /** Where the weight of that is remembered. */
  readonly file: string;
}

/** The default for a sandbox that asks for no limit: much, but never most of what is left. */
export async function toDefaultDiskBytes(...folders: readonly string[]): Promise<number> {
  const free = await Promise.all(
    folders.map(async (folder) => {
      const found = await statfs(folder).catch(() => undefined);
      return found === undefined ? Infinity : found.bavail * found.bsize;
    }),
  );
  return Math.min(10 * 1024 * MB, Math.max(64 * MB, Math.floor(Math.min(...free) / 2)));
}

/** What one sandbox takes of the disks that it can write to, and what it may. */
export class DiskGuard {
  readonly #folders: GuardedFolders;
  readonly #watch: DiskWatch;
  #limit: number;
  #baseline: Promise<number> | undefined;
  #disks: readonly number[] | undefined;
  /** At the last look. */
  #weight = 0;
  #free = new Map<number, number>();
  #due = 0;
  /** Before this, a look is not worth its cost. */
  #early = 0;
  #begun = 0;
  /** What it weighed when it was ended for its weight. It may run again to tidy up, but not grow further. */
  #tolerated = 0;
  #weighing: Promise<void> | undefined;

  constructor(folders: GuardedFolders, limit: number, watch: DiskWatch) {
    this.#folders = folders;
    this.#limit = limit;
    this.#watch = watch;
  }

  /** One sandbox may be connected to more than once; it is watched once. */
  get name(): string {
    return this.#folders.own;
  }

  get folders(): readonly string[] {
    return [this.#folders.own, this.#folders.workspace];
  }

  get weight(): number {
    return this.#weight;
  }

  get slack(): number {
    return Math.max(MB, this.#allowed - this.#weight);
  }

  /** While somebody may still run from before. */
  watch(): void {
    this.#begun = performance.now();
    diskWarden.add(this);
  }

  /** Before something is started. */
  begin(): void {
    this.#baseline ??= this.#readBaseline();
    this.watch();
  }

  rest(): void {
    diskWarden.remove(this);
  }

  isNeeded(): Promise<boolean> {
    return this.#watch.isNeeded();
  }

  freeze(): Promise<() => Promise<void>> {
    return this.#watch.freeze();
  }

  /** Where its own folders are, once that is known. */
  get ownDisk(): number | undefined {
    return this.#disks?.[0];
  }

  /** The devices that it can write to. */
  async disks(): Promise<readonly number[]> {
    this.#disks ??= await Promise.all(this.folders.map(async (folder) => (await stat(folder)).dev));
    return this.#disks;
  }

  /**
   * Weighs if it may have become too heavy: nothing grows by more than its disks have lost. Now and then it is weighed
   * anyway, for somebody else may have freed as much meanwhile.
   */
  look(states: ReadonlyMap<number, DiskState>): void {
    if (this.#weighing !== undefined) return;
    let lost = 0;
    for (const [disk, { free }] of states) {
      if (this.#disks?.includes(disk)) lost += Math.max(0, (this.#free.get(disk) ?? free) - free);
    }
    const now = performance.now();
    if (now < this.#early || (lost < this.slack && now < this.#due)) return;
    this.#weighing = this.#judge(states)
      .catch(() => {})
      .finally(() => (this.#weighing = undefined));
  }

  /** How much it takes now, and how much more than at the last look. */
  async weigh(states: ReadonlyMap<number, DiskState>): Promise<{ weight: number; growth: number }> {
    const big = new Set<string>();
    const { own, workspace } = this.#folders;
    const trees = isInside(workspace, own) ? [own] : [own, workspace];
    const sizes = await Promise.all(trees.map((tree) => weighTree(tree, { big })));
    const open = await weighOpenFiles(await this.#watch.members(), big);
    const before = this.#weight;
    const total = sizes.reduce((sum, size) => sum + size, open);
    this.#baseline ??= this.#readBaseline();
    this.#weight = Math.max(0, total - (await this.#baseline));
    this.#free = new Map([...states].map(([disk, { free }]) => [disk, free]));
    return { weight: this.#weight, growth: this.#weight - before };
  }

  /** The bytes that its processes have written so far, to whatever. */
  async written(): Promise<number> {
    return countWritten(await this.#watch.members());
  }

  /** Ends it for the good of all others; when it comes back it cannot take more than it has. */
  async end(verdict: string): Promise<void> {
    this.#limit = Math.min(this.#limit, this.#weight);
    await this.#watch.onExceeded(verdict);
  }

  get #allowed(): number {
    return Math.max(this.#limit, this.#tolerated);
  }

  async #judge(states: ReadonlyMap<number, DiskState>): Promise<void> {
    const begun = performance.now();
    if (!(await this.isNeeded())) {
      this.#early = begun + STARTING_MS / 10;
      if (begun - this.#begun > STARTING_MS) this.rest();
      return;
    }
    const { weight } = await this.weigh(states);
    const took = performance.now() - begun;
    this.#early = performance.now() + took * 4;
    this.#due = performance.now() + Math.max(SELDOM_MS, took * 50);
    if (weight <= this.#limit) this.#tolerated = 0;
    if (weight <= this.#allowed) return;
    this.#tolerated = Math.min(weight, 2 * this.#limit);
    this.rest();
    await this.#watch.onExceeded(`out of disk: limit ${Math.round(this.#limit / MB)} MB`);
  }

  /** What the workspace held before the first start; made later, it counts. Known to later lives of the server. */
  async #readBaseline(): Promise<number> {
    const { file, workspace } = this.#folders;
    const known = await readFile(file, "utf8").catch(() => undefined);
    if (known !== undefined) return Number(known) || 0;
    const bytes = await weighTree(workspace, { madeBefore: Date.now() });
    await writeFile(file, String(bytes), { mode: 0o600 }).catch(() => {});
    return bytes;
  }
}
