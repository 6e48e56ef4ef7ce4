import { execFile } from "node:child_process";
import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setImmediate as yieldToOthers, setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { readFile as readFileNow } from "../../../disk/sync-files.ts";

/** Only Linux shows its processes as files. */
const HAS_PROC = process.platform === "linux";

export interface ProcessRow {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** The kernel session, by the pid of its leader. */
  readonly session: number;
  /** As the kernel abbreviates it: R, S, D, T… */
  readonly state: string;
  /** Its start time in the system's own format: with the pid, the identity of a process. */
  readonly start: string;
}

/** How many processes are read before other work runs. */
const SLICE = 64;
/** The pause after a scan, as a multiple of its length, so that many scans leave the thread to other work. */
const REST = 4;
const MOST_REST_MS = 250;
/** How many files of /proc this whole program has open at once. */
const MAX_OPEN = 8;
const buffer = Buffer.alloc(4_096);

let current: Promise<unknown> = Promise.resolve();
let next: Promise<ProcessRow[]> | undefined;
/** No scan begins before this time. */
let notBefore = 0;

/**
 * Every live process, without zombies. Callers during a scan share the next one, which begins later than their call.
 */
export function readProcesses(): Promise<ProcessRow[]> {
  if (!HAS_PROC) return readPs();
  next ??= current.then(async () => {
    const restMs = notBefore - performance.now();
    if (restMs > 0) await sleep(restMs);
    next = undefined;
    const scanning = scan();
    current = scanning.catch(() => {});
    return scanning;
  });
  return next;
}

async function scan(): Promise<ProcessRow[]> {
  const rows: ProcessRow[] = [];
  let begun = performance.now();
  let tookMs = 0;
  for (const [index, pid] of listPids().entries()) {
    if (index % SLICE === SLICE - 1) {
      tookMs += performance.now() - begun;
      await yieldToOthers();
      begun = performance.now();
    }
    const row = toRow(pid, readStat(pid));
    if (row !== undefined) rows.push(row);
  }
  tookMs += performance.now() - begun;
  notBefore = performance.now() + Math.min(tookMs * REST, MOST_REST_MS);
  return rows;
}

export async function readProcess(pid: number): Promise<ProcessRow | undefined> {
  if (!HAS_PROC) return (await readPs()).find((row) => row.pid === pid);
  return toRow(pid, readStat(pid));
}

/** The first child of a process with one thread; undefined where it has none. */
export async function findChild(pid: number): Promise<number | undefined> {
  const text = await readKernelFile(`/proc/${pid}/task/${pid}/children`);
  if (text !== undefined) return text.split(" ").filter(Boolean).map(Number)[0];
  // Not every kernel lists children.
  const rows = readStat(pid) === undefined ? [] : await readProcesses();
  return rows.find((row) => row.parent === pid)?.pid;
}

/** The pids of all descendants of these processes, the nearest first. */
export function listDescendants(pids: Iterable<number>, rows: readonly ProcessRow[]): number[] {
  const children = new Map<number, number[]>();
  for (const { pid, parent } of rows) {
    const known = children.get(parent);
    if (known === undefined) children.set(parent, [pid]);
    else known.push(pid);
  }
  const seen = new Set(pids);
  const count = seen.size;
  // The set grows during the loop.
  for (const pid of seen) for (const child of children.get(pid) ?? []) seen.add(child);
  return [...seen].slice(count);
}

/** A variable of the environment that the process was started with. */
export async function readVariable(pid: number, name: string): Promise<string | undefined> {
  if (!HAS_PROC) return undefined;
  const environ = await readProcFile(`/proc/${pid}/environ`);
  const line = environ?.split("\0").find((line) => line.startsWith(`${name}=`));
  return line?.slice(name.length + 1);
}

/** Reads a file of /proc that a process may delay; undefined where the process is gone or another user's. */
export async function readProcFile(path: string): Promise<string | undefined> {
  await enter();
  try {
    return await readFile(path, "latin1");
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  } finally {
    leave();
  }
}

/** Reads a file of /proc that no process can delay. */
function readKernelFile(path: string): Promise<string | undefined> {
  return readFileNow(path, "latin1").catch((error: unknown) => {
    if (isGone(error)) return undefined;
    throw error;
  });
}

/** The identity of a process over restarts of the server: a pid alone may be reused. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly start: string;
  readonly boot: string;
}

export async function identify(pid: number): Promise<ProcessIdentity> {
  const row = await readProcess(pid);
  return { pid, start: row?.start ?? "", boot: await readBootId() };
}

export async function isAlive(identity: ProcessIdentity | undefined): Promise<boolean> {
  if (identity === undefined) return false;
  const row = await readProcess(identity.pid);
  return row?.start === identity.start && identity.boot === (await readBootId());
}

/** The open flags of a descriptor, by its file in `fdinfo`. */
export function toOpenFlags(fdinfo: string): number {
  return Number.parseInt(/^flags:\s*([0-7]+)/m.exec(fdinfo)?.[1] ?? "0", 8);
}

let boot: Promise<string> | undefined;

/** The id of the host's boot: pids and start times are valid within one boot. Empty where it is unknown. */
export function readBootId(): Promise<string> {
  if (!HAS_PROC) return readBootOfSystem();
  boot ??= readKernelFile("/proc/sys/kernel/random/boot_id").then((id) => id?.trim() ?? "");
  boot.catch(() => (boot = undefined));
  return boot;
}

/** A moment on the clock of process start times. */
export interface Moment {
  readonly boot: string;
  readonly start: number;
}

const TICKS_PER_SECOND = 100;
/** How much /proc/uptime and the start time of a process may differ. */
const SLACK_TICKS = 200;

/** A moment that is certainly before the start of every later process; undefined where its clock cannot be read. */
export async function readMoment(): Promise<Moment | undefined> {
  if (!HAS_PROC) return undefined;
  const uptime = Number.parseFloat((await readKernelFile("/proc/uptime")) ?? "");
  const boot = await readBootId();
  if (Number.isNaN(uptime) || boot === "") return undefined;
  return { boot, start: Math.floor(uptime * TICKS_PER_SECOND) - SLACK_TICKS };
}

function listPids(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch (error) {
    if (isGone(error)) return [];
    throw error;
  }
}

/** Synchronous: no process can delay this file, and only one is open at a time. */
function readStat(pid: number): string | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(`/proc/${pid}/stat`, "r");
    return buffer.toString("latin1", 0, readSync(fd, buffer, 0, buffer.length, 0));
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function toRow(pid: number, stat: string | undefined): ProcessRow | undefined {
  if (stat === undefined) return undefined;
  // The second field is the program's name in parentheses, which may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state = ""] = fields;
  if (state === "Z" || state === "X") return undefined;
  const [parent = NaN, group = NaN, session = NaN] = fields.slice(1, 4).map(Number);
  return { pid, parent, group, session, state, start: fields[19] ?? "" };
}

/** Whether an error means that the process is gone or hidden. Another error, such as too many open files, does not. */
function isGone(error: unknown): boolean {
  return ["ENOENT", "ESRCH", "EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");
}

let open = 0;
const waiting: (() => void)[] = [];

async function enter(): Promise<void> {
  if (open >= MAX_OPEN) await new Promise<void>((resolve) => waiting.push(resolve));
  else open += 1;
}

function leave(): void {
  const next = waiting.shift();
  if (next === undefined) open -= 1;
  else next();
}

const run = promisify(execFile);
const OPTIONS = { env: { PATH: "/bin:/usr/bin:/sbin:/usr/sbin", LC_ALL: "C" }, maxBuffer: 64 * 1024 * 1024 };

/** Every live process by `ps`, on systems without /proc. The group stands for the kernel session: macOS lists no more. */
export async function readPs(): Promise<ProcessRow[]> {
  const { stdout } = await run("ps", ["-axo", "pid=,ppid=,pgid=,state=,lstart="], OPTIONS);
  return stdout.split("\n").flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const [pid = NaN, parent = NaN, group = NaN] = fields.slice(0, 3).map(Number);
    const [state = "", ...start] = fields.slice(3);
    if (start.length === 0 || state.startsWith("Z")) return [];
    return [{ pid, parent, group, session: group, state: state.slice(0, 1), start: start.join(" ") }];
  });
}

let bootTime: Promise<string> | undefined;

/** The start of pid 1, which differs from boot to boot. */
function readBootOfSystem(): Promise<string> {
  bootTime ??= run("ps", ["-o", "lstart=", "-p", "1"], OPTIONS).then(
    ({ stdout }) => stdout.trim(),
    () => "",
  );
  return bootTime;
}
