import { join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { appendFile, readFile, rm, writeFile } from "../../disk/onTheSpot.ts";
import type { Cgroup } from "./cgroup.ts";
import type { LimitMark } from "./limitMark.ts";
import { pruneMarkers, readMarker, recallMarker } from "./markers.ts";
import { readBootId, readProcess, readProcesses, type Moment, type ProcessRow } from "./procfs.ts";

/** Who belongs to a sandbox: by its cgroup, its marker or its mark, the sessions that were started in it, and descent. */
export class Members {
  readonly #file: string;
  readonly #key: string;
  readonly #cgroup: Cgroup | undefined;
  readonly #mark: LimitMark | undefined;
  readonly #since: Moment | undefined;
  #leaders: Leader[] | undefined;

  constructor(options: {
    folder: string;
    key: string;
    cgroup: Cgroup | undefined;
    mark?: LimitMark | undefined;
    /** Before any of them began. */
    since?: Moment | undefined;
  }) {
    this.#file = join(options.folder, "leaders");
    this.#key = options.key;
    this.#cgroup = options.cgroup;
    this.#mark = options.mark;
    this.#since = options.since;
  }

  /** Remembers a process that was started as the leader of a session of its own. */
  async add(pid: number): Promise<void> {
    const row = await readProcess(pid);
    const leader = { pid, start: row?.start ?? "", boot: await readBootId() };
    const leaders = await this.#read();
    leaders.push(leader);
    if (leaders.length > 256) await this.#prune();
    // The cgroup remembers by itself.
    else if (this.#cgroup === undefined) await appendFile(this.#file, toLine(leader), { mode: 0o600 });
  }

  /** All that live now, but never ourselves. */
  async find(): Promise<number[]> {
    const rows = (await readProcesses()).filter((row) => row.pid !== process.pid && row.pid !== 1);
    pruneMarkers(rows);
    const grouped = new Set(await this.#cgroup?.members());
    const sessions = await this.#sessions(rows);
    const found = new Set<number>();
    // Who is older than the sandbox is not asked: on a busy host that is nearly everybody.
    const since = this.#since?.boot === (await readBootId()) ? this.#since : undefined;
    const isOlder = (row: ProcessRow): boolean => since !== undefined && Number(row.start) < since.start;
    const unknown: ProcessRow[] = [];
    for (const row of rows) {
      const belongs = grouped.has(row.pid) || sessions.has(row.session) || sessions.has(row.group);
      if (belongs || recallMarker(row) === this.#key) found.add(row.pid);
      else if (!isOlder(row) && this.#mayBeMarked(row)) unknown.push(row);
    }
    await inLanes(unknown, async (row) => {
      if (await this.#isMarked(row)) found.add(row.pid);
    });
    addDescendants(found, rows);
    return [...found];
  }

  /** Those in the sessions that were started and their descendants, without asking every process of the host. */
  async findNear(): Promise<ProcessRow[]> {
    const rows = (await readProcesses()).filter((row) => row.pid !== process.pid && row.pid !== 1);
    const sessions = await this.#sessions(rows);
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
    return (await this.#sessions(leader === undefined ? [row] : [row, leader])).has(row.session);
  }

  /** A process of the sandbox; undefined for one that has ended. Fails for one of somebody else's. */
  async demand(pid: number): Promise<ProcessRow | undefined> {
    const row = await readProcess(pid);
    if (row === undefined || (await this.has(pid))) return row;
    // It may have ended since: then it belongs to nobody.
    const now = await readProcess(pid);
    if (now?.start !== row.start || now.state === "Z") return undefined;
    const detail = `The process ${pid} does not belong to this sandbox, so it gets no signal from it.`;
    throw new SluiceError("permission_denied", detail, { pid });
  }

  /** Whether anybody lives; quick where a group can be asked. */
  async any(): Promise<boolean> {
    if (this.#cgroup !== undefined && !(await this.#cgroup.isEmpty())) return true;
    return this.#cgroup === undefined && (await this.find()).length > 0;
  }

  /** To be called when none is left. */
  async clear(): Promise<void> {
    this.#leaders = [];
    await rm(this.#file, { force: true });
  }

  /** Whether a look could find a mark of this sandbox. */
  #mayBeMarked(row: ProcessRow): boolean {
    return this.#mark !== undefined || recallMarker(row) === undefined;
  }

  async #isMarked(row: ProcessRow): Promise<boolean> {
    return (await readMarker(row)) === this.#key || ((await this.#mark?.isOn(row.pid)) ?? false);
  }

  /** The sessions that are still ours: a pid that lives must be the very process that was started. */
  async #sessions(rows: readonly ProcessRow[]): Promise<Set<number>> {
    const boot = await readBootId();
    const starts = new Map(rows.map((row) => [row.pid, row.start]));
    const ours = (await this.#read()).filter((leader) => {
      const start = starts.get(leader.pid);
      if (start !== undefined) return leader.boot === boot && start === leader.start;
      // Of a leader that is gone only its number is left, and after another boot that can be anybody's.
      return boot !== "" && leader.boot === boot;
    });
    return new Set(ours.map((leader) => leader.pid));
  }

  async #prune(): Promise<void> {
    const rows = await readProcesses();
    const alive = new Set(rows.map((row) => row.session));
    const sessions = await this.#sessions(rows);
    this.#leaders = (await this.#read()).filter(({ pid }) => alive.has(pid) && sessions.has(pid));
    await writeFile(this.#file, this.#leaders.map(toLine).join(""), { mode: 0o600 });
  }

  async #read(): Promise<Leader[]> {
    if (this.#leaders !== undefined) return this.#leaders;
    const lines = (await readFile(this.#file, "utf8").catch(() => "")).split("\n").slice(0, -1);
    this.#leaders ??= lines.map((line) => JSON.parse(line) as Leader);
    return this.#leaders;
  }
}

/** So many are asked at once: a host has thousands, and each that waits takes memory. */
const LANES = 8;

async function inLanes(rows: readonly ProcessRow[], task: (row: ProcessRow) => Promise<void>): Promise<void> {
  const left = rows.values();
  const walk = async (): Promise<void> => {
    for (const row of left) await task(row);
  };
  await Promise.all(Array.from({ length: LANES }, walk));
}

interface Leader {
  readonly pid: number;
  readonly start: string;
  readonly boot: string;
}

function toLine(leader: Leader): string {
  return `${JSON.stringify(leader)}\n`;
}

function addDescendants(found: Set<number>, rows: readonly ProcessRow[]): void {
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const row of rows) if (found.has(row.parent)) found.add(row.pid);
  }
}
