import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setImmediate as yieldToOthers, setTimeout as sleep } from "node:timers/promises";
import { readFile as readFileNow } from "../../disk/onTheSpot.ts";
import { readBootOfSystem, readPs } from "./ps.ts";

/** Only Linux shows its processes as files. */
const HAS_PROC = process.platform === "linux";

export interface ProcessRow {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** As the kernel abbreviates it: R, S, D, T… */
  readonly state: string;
  /** When it began, in the system's own words: with the pid, who a process is. */
  readonly start: string;
}

/** How many processes are read before others get their turn. */
const SLICE = 64;
/** How many times its own length a scan is followed by none, so that many that end leave the thread to others. */
const REST = 4;
const MOST_REST_MS = 250;
/** How many files of /proc this whole program has open at once. */
const MAX_OPEN = 8;
const buffer = Buffer.alloc(4_096);

let current: Promise<unknown> = Promise.resolve();
let next: Promise<ProcessRow[]> | undefined;
/** Before this, another scan would take too much of the thread. */
let early = 0;

/**
 * Every process that lives. Zombies have ended already. Callers that come during a scan
 * share the one after it, which begins later than their call.
 */
export function readProcesses(): Promise<ProcessRow[]> {
  if (!HAS_PROC) return readPs();
  next ??= current.then(async () => {
    const restMs = early - performance.now();
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
  early = performance.now() + Math.min(tookMs * REST, MOST_REST_MS);
  return rows;
}

export async function readProcess(pid: number): Promise<ProcessRow | undefined> {
  if (!HAS_PROC) return (await readPs()).find((row) => row.pid === pid);
  return toRow(pid, readStat(pid));
}

/** The children of a process with one thread; undefined where this kernel does not tell. */
export async function readChildren(pid: number): Promise<number[] | undefined> {
  const text = await readKernelFile(`/proc/${pid}/task/${pid}/children`);
  if (text === undefined) return readStat(pid) === undefined ? [] : undefined;
  return text.split(" ").filter(Boolean).map(Number);
}

/** A variable of the environment that the process was started with. */
export async function readVariable(pid: number, name: string): Promise<string | undefined> {
  if (!HAS_PROC) return undefined;
  const environ = await readProcFile(`/proc/${pid}/environ`);
  const line = environ?.split("\0").find((line) => line.startsWith(`${name}=`));
  return line?.slice(name.length + 1);
}

/** A file that a process may hold up for a while; undefined where the process is gone or another user's. */
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

/** A file that no process can hold up. */
function readKernelFile(path: string): Promise<string | undefined> {
  return readFileNow(path, "latin1").catch((error: unknown) => {
    if (isGone(error)) return undefined;
    throw error;
  });
}

let boot: Promise<string> | undefined;

/** The boot that pids and start times belong to; empty where nobody knows. */
export function readBootId(): Promise<string> {
  if (!HAS_PROC) return readBootOfSystem();
  boot ??= readKernelFile("/proc/sys/kernel/random/boot_id").then((id) => id?.trim() ?? "");
  boot.catch(() => (boot = undefined));
  return boot;
}

/** A moment in the count of a process's start. */
export interface Moment {
  readonly boot: string;
  readonly start: number;
}

const TICKS_PER_SECOND = 100;
/** How far the two counts of the kernel may lie apart. */
const SLACK_TICKS = 200;

/** A moment before every process that is started from now on; undefined where nobody knows. */
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

/** At once, without a thread: no process can hold this file up, and one is open at a time. */
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
  const [state, parent, group, session] = fields;
  if (state === "Z" || state === "X") return undefined;
  return {
    pid,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    state: state ?? "",
    start: fields[19] ?? "",
  };
}

/** Anything else, such as too many open files, says nothing about the process. */
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
