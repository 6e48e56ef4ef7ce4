import { join } from "node:path";
import { SluiceError } from "../../../contract/index.ts";
import { appendFile, readFile, rm, writeFile } from "../../../disk/on-the-spot.ts";
import type { Cgroup } from "./cgroup.ts";
import type { LimitMark } from "./limit-mark.ts";
import { cachedKey, pruneKeys, readKey } from "./process-keys.ts";
import {
  identify,
  readBootId,
  readProcess,
  readProcesses,
  type Moment,
  type ProcessIdentity,
  type ProcessRow,
} from "./procfs.ts";

/**
 * The processes of a sandbox. A process belongs to it by its control group, by the sandbox's key in its environment, by
 * its limit mark, by a kernel session that was started in the sandbox, or as a descendant of such a process.
 */
export class Members {
  readonly #file: string;
  readonly #key: string;
  readonly #cgroup: Cgroup | undefined;
  readonly #mark: LimitMark | undefined;
  readonly #since: Moment | undefined;
  /** The leaders of the kernel sessions that were started in the sandbox. */
  #leaders: ProcessIdentity[] | undefined;

  constructor(options: {
    folder: string;
    key: string;
    cgroup: Cgroup | undefined;
    mark?: LimitMark | undefined;
    /** A moment before the sandbox's first process. */
    since?: Moment | undefined;
  }) {
    this.#file = join(options.folder, "leaders");
    this.#key = options.key;
    this.#cgroup = options.cgroup;
    this.#mark = options.mark;
    this.#since = options.since;
  }

  /** Remembers a process that was started as the leader of a kernel session. */
  async add(pid: number): Promise<void> {
    const leader = await identify(pid);
    const leaders = await this.#readLeaders();
    leaders.push(leader);
    if (leaders.length > 256) await this.#pruneLeaders();
    // A control group keeps its members over a restart of the server, without a file.
    else if (this.#cgroup === undefined) await appendFile(this.#file, toLine(leader), { mode: 0o600 });
  }

  /** The pids of all live members. This process and pid 1 are never among them. */
  async find(): Promise<number[]> {
    const rows = (await readProcesses()).filter((row) => row.pid !== process.pid && row.pid !== 1);
    pruneKeys(rows);
    const grouped = new Set(await this.#cgroup?.members());
    const sessions = await this.#kernelSessions(rows);
    const found = new Set<number>();
    // Processes older than the sandbox are skipped: on a busy host that is nearly all of them.
    const since = this.#since?.boot === (await readBootId()) ? this.#since : undefined;
    const isOlder = (row: ProcessRow): boolean => since !== undefined && Number(row.start) < since.start;
    const unknown: ProcessRow[] = [];
    for (const row of rows) {
      const belongs = grouped.has(row.pid) || sessions.has(row.session) || sessions.has(row.group);
      if (belongs || cachedKey(row) === this.#key) found.add(row.pid);
      else if (!isOlder(row) && this.#mayBeMarked(row)) unknown.push(row);
    }
    await inLanes(unknown, async (row) => {
      if (await this.#isMarked(row)) found.add(row.pid);
    });
    addDescendants(found, rows);
    return [...found];
  }

  /**
   * The members that are known by the sandbox's kernel sessions, and their descendants. Cheaper than `find`, which reads
   * the environment of every process of the host.
   */
  async findNear(): Promise<ProcessRow[]> {
    const rows = (await readProcesses()).filter((row) => row.pid !== process.pid && row.pid !== 1);
    const sessions = await this.#kernelSessions(rows);
    const near = rows.filter((row) => sessions.has(row.session) || sessions.has(row.group));
    const found = new Set(near.map((row) => row.pid));
    addDescendants(found, rows);
    return rows.filter((row) => found.has(row.pid));
  }

  async has(pid: number): Promise<boolean> {
    if ((await this.#cgroup?.members())?.includes(pid)) return true;
    const row = await readProcess(pid);
    if (row === undefined) return false;
    if (await this.#isMarked(row)) return true;
    const leader = await readProcess(row.session);
    return (await this.#kernelSessions(leader === undefined ? [row] : [row, leader])).has(row.session);
  }

  /** A process of the sandbox; undefined for one that has ended. Fails for any other process. */
  async demand(pid: number): Promise<ProcessRow | undefined> {
    const row = await readProcess(pid);
    if (row === undefined || (await this.has(pid))) return row;
    // A process that ended since the first look is no stranger.
    const now = await readProcess(pid);
    if (now?.start !== row.start || now.state === "Z") return undefined;
    const detail = `The process ${pid} does not belong to this sandbox, so it gets no signal from it.`;
    throw new SluiceError("permission_denied", detail, { pid });
  }

  /** Whether any member is alive. Fast with a control group; else a scan of the host. */
  async any(): Promise<boolean> {
    if (this.#cgroup === undefined) return (await this.find()).length > 0;
    return !(await this.#cgroup.isEmpty());
  }

  /** Forgets the leaders. The caller has ended all members. */
  async clear(): Promise<void> {
    this.#leaders = [];
    await rm(this.#file, { force: true });
  }

  /** Whether the key or the limit mark of this process still has to be read. */
  #mayBeMarked(row: ProcessRow): boolean {
    return this.#mark !== undefined || cachedKey(row) === undefined;
  }

  async #isMarked(row: ProcessRow): Promise<boolean> {
    return (await readKey(row)) === this.#key || ((await this.#mark?.isOn(row.pid)) ?? false);
  }

  /** The kernel sessions of the sandbox: a live leader must be the very process that was started. */
  async #kernelSessions(rows: readonly ProcessRow[]): Promise<Set<number>> {
    const boot = await readBootId();
    const starts = new Map(rows.map((row) => [row.pid, row.start]));
    const ours = (await this.#readLeaders()).filter((leader) => {
      const start = starts.get(leader.pid);
      if (start !== undefined) return leader.boot === boot && start === leader.start;
      // Of a leader that is gone only the pid is known. After another boot it may be another process's.
      return boot !== "" && leader.boot === boot;
    });
    return new Set(ours.map((leader) => leader.pid));
  }

  async #pruneLeaders(): Promise<void> {
    const rows = await readProcesses();
    const alive = new Set(rows.map((row) => row.session));
    const sessions = await this.#kernelSessions(rows);
    this.#leaders = (await this.#readLeaders()).filter(({ pid }) => alive.has(pid) && sessions.has(pid));
    await writeFile(this.#file, this.#leaders.map(toLine).join(""), { mode: 0o600 });
  }

  async #readLeaders(): Promise<ProcessIdentity[]> {
    if (this.#leaders !== undefined) return this.#leaders;
    const lines = (await readFile(this.#file, "utf8").catch(() => "")).split("\n").slice(0, -1);
    this.#leaders ??= lines.map((line) => JSON.parse(line) as ProcessIdentity);
    return this.#leaders;
  }
}

/** How many processes are read at a time: a host has thousands, and each pending read takes memory. */
const LANES = 8;

async function inLanes(rows: readonly ProcessRow[], task: (row: ProcessRow) => Promise<void>): Promise<void> {
  const left = rows.values();
  const walk = async (): Promise<void> => {
    for (const row of left) await task(row);
  };
  await Promise.all(Array.from({ length: LANES }, walk));
}

function toLine(leader: ProcessIdentity): string {
  return `${JSON.stringify(leader)}\n`;
}

function addDescendants(found: Set<number>, rows: readonly ProcessRow[]): void {
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const row of rows) if (found.has(row.parent)) found.add(row.pid);
  }
}
