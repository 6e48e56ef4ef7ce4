import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { constants, openSync, readdirSync, readFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { delimiter, join } from "node:path";
import type { Duplex } from "node:stream";
import { SluiceError } from "../../contract/index.ts";
import { access, stat } from "../../disk/sync-files.ts";
import type { SpawnedProcess } from "../port.ts";
import { homeFolder } from "../data-folder.ts";
import { succeeds } from "./files/open-file.ts";
import { isInside } from "./files/paths.ts";
import { toOpenFlags } from "./processes/procfs.ts";

export interface StartOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdio: StdioOptions;
}

/** The streams of the spool's wrapper. Its own stderr is unused: the program that it runs has another. */
export function toStdio(stdio: SpawnedProcess["stdio"]): ["ignore" | Duplex, "ignore" | Duplex, "ignore"] {
  return [stdio?.stdin ?? "ignore", stdio?.stdout ?? "ignore", "ignore"];
}

/** Starts a program as the leader of a kernel session; returns once it runs. */
export async function startProgram(argv: readonly string[], options: StartOptions): Promise<ChildProcess> {
  const [program = "", ...args] = argv;
  await demandFolder(options.cwd);
  const stdio = withoutInherited(options.stdio);
  const child = spawn(program, args, { ...options, stdio, detached: true });
  if (child.pid !== undefined) yieldToServer(child.pid);
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error) => reject(toStartError(program, error)));
  });
  return child;
}

/** The niceness of processes in sandboxes: the server has priority on a busy core (docs/decisions/0056). */
export const NICENESS = 10;
const LEAST_PRIORITY = 19;

/** Lowers the priority of a new process, which its later children inherit. */
function yieldToServer(pid: number): void {
  try {
    setPriority(pid, Math.min(LEAST_PRIORITY, getPriority() + NICENESS));
  } catch {
    // The process has ended already, or this system does not permit the change.
  }
}

/** Fails when no folder on the PATH of `env` has the program. */
export async function demandProgram(program: string, env: Readonly<Record<string, string>>): Promise<void> {
  const folders = program.includes("/") ? [""] : (env["PATH"] ?? "").split(delimiter);
  for (const folder of folders) {
    const file = folder === "" ? program : join(folder, program);
    if (await succeeds(access(file, constants.X_OK))) return;
  }
  const detail = `The program ${program} was not found or cannot be run. Install it, or put its folder on the PATH of the server.`;
  throw new SluiceError("agent_not_installed", detail, { program });
}

/** Refuses a program whose folders would show a sandbox the user's home, the server's own data, or the whole disk. */
export function refuseExposed(needs: readonly string[], hide: readonly string[]): void {
  const home = homeFolder();
  const kept = [...(home === "/" ? [] : [home]), ...hide];
  const exposed = needs.find((need) => need === "/" || kept.some((path) => isInside(path, need)));
  if (exposed === undefined) return;
  const detail = `The program cannot be started in a sandbox: it would need all of ${exposed}, and with it a home or sluice's own data. Install it in a folder of its own.`;
  throw new SluiceError("permission_denied", detail, { path: exposed });
}

async function demandFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory()) return;
  const detail = `The folder ${folder} to work in is gone. Make it again, or choose another one.`;
  throw new SluiceError("invalid_request", detail);
}

function toStartError(program: string, error: Error): SluiceError {
  const detail = `${program} could not be started: ${error.message}.`;
  return new SluiceError("internal", detail, { program }, { cause: error });
}

const OWN_DESCRIPTORS = "/proc/self/fdinfo";
const CLOSED_ON_EXEC = 0o2000000;

interface Inherited {
  readonly fds: readonly number[];
  /** A descriptor of /dev/null; -1 where none is needed. */
  readonly devNull: number;
}

let inherited: Inherited | undefined;

/** Keeps descriptors that this server inherited, such as an open file of its starter, from an agent. */
function withoutInherited(stdio: StdioOptions): StdioOptions {
  inherited ??= findInherited();
  const { fds, devNull } = inherited;
  if (fds.length === 0) return stdio;
  const all = Array.isArray(stdio) ? [...stdio] : [stdio, stdio, stdio];
  for (const fd of fds.filter((fd) => fd >= all.length)) {
    while (all.length < fd) all.push("ignore");
    // "ignore" does not close descriptors above 2, so /dev/null replaces them.
    all[fd] = devNull;
  }
  return all;
}

/** Descriptors that a child would inherit. Node sets close-on-exec on its own, and on inherited ones up to a gap. */
function findInherited(): Inherited {
  const fds = listFds().filter((fd) => fd > 2 && !isClosedOnExec(fd));
  return { fds, devNull: fds.length === 0 ? -1 : openSync("/dev/null", "r+") };
}

function listFds(): number[] {
  try {
    return readdirSync(OWN_DESCRIPTORS)
      .map(Number)
      .toSorted((a, b) => a - b);
  } catch {
    return [];
  }
}

function isClosedOnExec(fd: number): boolean {
  try {
    return (toOpenFlags(readFileSync(`${OWN_DESCRIPTORS}/${fd}`, "utf8")) & CLOSED_ON_EXEC) !== 0;
  } catch {
    // The descriptor of the listing itself is closed already.
    return true;
  }
}
