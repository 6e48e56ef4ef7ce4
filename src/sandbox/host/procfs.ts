import { readdir, readFile } from "node:fs/promises";
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

/** Every process that lives. Zombies have ended already. */
export async function readProcesses(): Promise<ProcessRow[]> {
  if (!HAS_PROC) return readPs();
  const names = await readdir("/proc").catch(() => []);
  const rows = await Promise.all(
    names.filter((name) => /^\d+$/.test(name)).map((name) => readProcess(Number(name))),
  );
  return rows.filter((row) => row !== undefined);
}

export async function readProcess(pid: number): Promise<ProcessRow | undefined> {
  if (!HAS_PROC) return (await readPs()).find((row) => row.pid === pid);
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
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

/** Whether the process was started with this variable in its environment. */
export async function hasVariable(pid: number, variable: string): Promise<boolean> {
  if (!HAS_PROC) return false;
  const environ = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
  return environ.split("\0").includes(variable);
}

/** The boot that pids and start times belong to; empty where nobody knows. */
export async function readBootId(): Promise<string> {
  if (!HAS_PROC) return readBootOfSystem();
  const id = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  return id.trim();
}
