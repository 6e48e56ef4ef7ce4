import { accessSync, constants } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { Detected } from "../port.ts";
import { probeBwrap, type ProbeOptions } from "./probe.ts";
import { toInstallCommand, toObstacle } from "./obstacle.ts";
import { toSeccompFilter } from "./seccomp.ts";

/** What runs around bwrap is found here; the server's own search path would tell the sandbox about the server. */
const SYSTEM_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

export interface DetectOptions extends ProbeOptions {
  readonly arch?: string;
  /** The kernel's settings. */
  readonly settings?: string;
}

/** What was found to work stays so; a machine that was mended is tried again. */
const working = new Map<string, Promise<Detected>>();

/** Whether bwrap is to be used unasked: it runs a command, with the filter of system calls. */
export async function detectBwrap(bwrap: string | undefined, options: DetectOptions = {}): Promise<Detected> {
  const { arch = process.arch } = options;
  if (process.platform === "linux" && toSeccompFilter({ arch }) === undefined)
    return no(`there is no filter of system calls for ${arch}; bwrap has to be named to be used without one`);
  return tryBwrap(bwrap, options);
}

/** Really runs a command in a sandbox, once in a process. The answer says what to do where that fails. */
export function tryBwrap(bwrap: string | undefined, options: DetectOptions = {}): Promise<Detected> {
  if (process.platform !== "linux") return Promise.resolve(no("bubblewrap needs Linux"));
  if (bwrap === undefined) return lacking("bubblewrap is not installed", "bubblewrap");
  const known = working.get(bwrap);
  if (known !== undefined) return known;
  const tried = tryOnce(bwrap, options);
  working.set(bwrap, tried);
  const forget = (): boolean => working.delete(bwrap);
  tried.then(({ available }) => available || forget(), forget);
  return tried;
}

async function tryOnce(bwrap: string, options: DetectOptions): Promise<Detected> {
  for (const program of ["nsenter", "setpriv", "unshare", "prlimit"]) {
    if (findProgram(program, SYSTEM_PATH) === undefined)
      return lacking(`${program} is missing`, "util-linux");
  }
  const said = await probeBwrap(bwrap, options).catch((error: Error) => error.message);
  if (said === undefined) return { available: true };
  return { available: false, ...(await toObstacle(said, { bwrap, settings: options.settings })) };
}

/** Where bwrap is; undefined where it is not. */
export async function findBwrap(): Promise<string | undefined> {
  return findProgram("bwrap", [...(process.env["PATH"] ?? "").split(delimiter), ...SYSTEM_PATH]);
}

export function toOuterPath(bwrap: string): string {
  return [...new Set([...SYSTEM_PATH, dirname(bwrap)])].join(delimiter);
}

export function toDropPrefix({ uid, gid }: { uid: number; gid: number }): string[] {
  return ["setpriv", "--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
}

/** Where programs were found last: every session asks for bwrap, and a search path is long. */
const found = new Map<string, string>();

function findProgram(name: string, folders: readonly string[]): string | undefined {
  const search = [name, ...folders].join(delimiter);
  const known = found.get(search);
  if (known !== undefined && isRunnable(known)) return known;
  for (const folder of folders) {
    const file = join(folder, name);
    if (!folder.startsWith("/") || !isRunnable(file)) continue;
    found.set(search, file);
    return file;
  }
  return undefined;
}

/** On the spot: a hop to another thread and back takes longer than the look. */
function isRunnable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function lacking(reason: string, name: string): Promise<Detected> {
  return { available: false, reason, remedy: await toInstallCommand(name) };
}

function no(reason: string): Detected {
  return { available: false, reason };
}
