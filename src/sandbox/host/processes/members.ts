import { existsSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { SluiceError } from "../../../contract/index.ts";
import { appendFile, readFile, rm, writeFile } from "../../../disk/sync-files.ts";
import type { Cgroup } from "./cgroup.ts";
import { KEY_VARIABLE } from "./environment.ts";
import {
  identify,
  listDescendants,
  readBootId,
  readProcess,
  readProcesses,
  readProcFile,
  readVariable,
  type Moment,
  type ProcessIdentity,
  type ProcessRow,
} from "./procfs.ts";

interface MembersOptions {
  readonly folder: string;
  readonly key: string;
  readonly cgroup: Cgroup | undefined;
  readonly mark?: LimitMark | undefined;
  /** A moment before the sandbox's first process. */
  readonly since?: Moment | undefined;
}

/**
 * The processes of a sandbox. A process belongs to it by its control group, by the sandbox's key in its environment, by
 * its limit mark, by a kernel session that was started in the sandbox, or as a descendant of such a process.
 */
export class Members {
  readonly #options: MembersOptions;
  readonly #file: string;
  /** The leaders of the kernel sessions that were started in the sandbox. */
  #leaders: ProcessIdentity[] | undefined;

  constructor(options: MembersOptions) {
    this.#options = options;
    this.#file = join(options.folder, "leaders");
  }

  /** Remembers a process that was started as the leader of a kernel session. */
  async add(pid: number): Promise<void> {
    const leader = await identify(pid);
    const leaders = await this.#readLeaders();
    leaders.push(leader);
    if (leaders.length > 256) await this.#pruneLeaders();
    // A control group keeps its members over a restart of the server, without a file.
    else if (this.#options.cgroup === undefined)
      await appendFile(this.#file, toLine(leader), { mode: 0o600 });
  }

  /** The pids of all live members. */
  async find(): Promise<number[]> {
    const rows = await readOthers();
    pruneKeys(rows);
    const grouped = new Set(await this.#options.cgroup?.members());
    const sessions = await this.#kernelSessions(rows);
    const found = new Set<number>();
    // Processes older than the sandbox are skipped: on a busy host that is nearly all of them.
    const { since: begun } = this.#options;
    const since = begun?.boot === (await readBootId()) ? begun : undefined;
    const isOlder = (row: ProcessRow): boolean => since !== undefined && Number(row.start) < since.start;
    const unknown: ProcessRow[] = [];
    for (const row of rows) {
      const belongs = grouped.has(row.pid) || sessions.has(row.session) || sessions.has(row.group);
      if (belongs || cachedKey(row) === this.#options.key) found.add(row.pid);
      else if (!isOlder(row) && this.#mayBeMarked(row)) unknown.push(row);
    }
    await inLanes(unknown, async (row) => {
      if (await this.#isMarked(row)) found.add(row.pid);
    });
    return [...found, ...listDescendants(found, rows)];
  }

  /**
   * The members that are known by the sandbox's kernel sessions, and their descendants. Cheaper than `find`, which reads
   * the environment of every process of the host.
   */
  async findNear(): Promise<ProcessRow[]> {
    const rows = await readOthers();
    const sessions = await this.#kernelSessions(rows);
    const near = rows.filter((row) => sessions.has(row.session) || sessions.has(row.group));
    const found = near.map((row) => row.pid);
    const pids = new Set([...found, ...listDescendants(found, rows)]);
    return rows.filter((row) => pids.has(row.pid));
  }

  async has(pid: number): Promise<boolean> {
    if ((await this.#options.cgroup?.members())?.includes(pid)) return true;
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
    if (this.#options.cgroup === undefined) return (await this.find()).length > 0;
    return !(await this.#options.cgroup.isEmpty());
  }

  /** Forgets the leaders. The caller has ended all members. */
  async clear(): Promise<void> {
    this.#leaders = [];
    await rm(this.#file, { force: true });
  }

  /** Whether the key or the limit mark of this process still has to be read. */
  #mayBeMarked(row: ProcessRow): boolean {
    return this.#options.mark !== undefined || cachedKey(row) === undefined;
  }

  async #isMarked(row: ProcessRow): Promise<boolean> {
    return (await readKey(row)) === this.#options.key || ((await this.#options.mark?.isOn(row.pid)) ?? false);
  }

  /** The kernel sessions of the sandbox: a live leader must be the very process that was started. */
  async #kernelSessions(rows: readonly ProcessRow[]): Promise<Set<number>> {
    const boot = await readBootId();
    const starts = new Map(rows.map((row) => [row.pid, row.start]));
    const ours = (await this.#readLeaders()).filter((leader) => {
      const start = starts.get(leader.pid);
      if (start !== undefined) return leader.boot === boot && start === leader.start;
      // Only the pid of an ended leader is known. After a reboot another process may have it.
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

/** All processes but this one and pid 1, which are never members. */
async function readOthers(): Promise<ProcessRow[]> {
  return (await readProcesses()).filter((row) => row.pid !== process.pid && row.pid !== 1);
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

const PROGRAM = "/usr/bin/prlimit";
/** Higher than any value that people set. */
const LOWEST_VALUE = 2 ** 50;

/**
 * A number in the resource limits of every process of a sandbox, by which its processes are found. Descendants inherit
 * it through any fork, exec, cleared environment and new kernel session. It is the limit of file locks, which Linux has
 * ignored for twenty years. A process without privileges can lower it, and so lose the mark, but not raise it again.
 */
export class LimitMark {
  /** Put before a command, it runs the command with the mark. */
  readonly prefix: readonly string[];
  readonly #line: RegExp;

  private constructor(value: number) {
    this.prefix = [PROGRAM, `--locks=${value}:${value}`, "--"];
    this.#line = new RegExp(`^Max file locks\\s+\\d+\\s+${value}\\s`, "m");
  }

  /** Undefined where the limit cannot be set or read. */
  static of(key: string): LimitMark | undefined {
    if (process.platform !== "linux" || !existsSync(PROGRAM)) return undefined;
    return new LimitMark(LOWEST_VALUE + Number.parseInt(key.slice(0, 12), 16));
  }

  async isOn(pid: number): Promise<boolean> {
    const limits = await readProcFile(`/proc/${pid}/limits`);
    return limits !== undefined && this.#line.test(limits);
  }
}

/** After this age a process without a key never gets one: the exec that sets it comes right after the fork. */
const SETTLED_TICKS = 500;
/** At this number of entries, those of dead processes are removed. */
const PRUNE_AT = 4_096;

interface KnownKey {
  /** The start time of the process, since its pid may be reused. */
  readonly start: string;
  /** Null for a process without a key. */
  readonly key: string | null;
}

const known = new Map<number, KnownKey>();

/**
 * The cached sandbox key of a process. It stays valid: a process that was started in a sandbox stays there, whatever it
 * executes and however it changes its environment. Null for a process without a key, undefined where none was read yet.
 */
function cachedKey({ pid, start }: ProcessRow): string | null | undefined {
  const found = known.get(pid);
  return found?.start === start ? found.key : undefined;
}

/** The sandbox key of a process, from the cache or from its environment; null where it has none. */
async function readKey(row: ProcessRow): Promise<string | null> {
  const cached = cachedKey(row);
  if (cached !== undefined) return cached;
  const key = (await readVariable(row.pid, KEY_VARIABLE)) ?? null;
  const isFinal = key !== null || uptime() * 100 - Number(row.start) > SETTLED_TICKS;
  if (isFinal) known.set(row.pid, { start: row.start, key });
  return key;
}

/** Removes the keys of dead processes from the cache; `rows` are all live ones. */
function pruneKeys(rows: readonly ProcessRow[]): void {
  if (known.size < Math.max(PRUNE_AT, 2 * rows.length)) return;
  const starts = new Map(rows.map(({ pid, start }) => [pid, start]));
  for (const [pid, { start }] of known) if (starts.get(pid) !== start) known.delete(pid);
}
