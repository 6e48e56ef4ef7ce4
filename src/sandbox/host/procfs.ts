import { readdir, readFile } from "node:fs/promises";

export interface ProcessRow {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** As the kernel abbreviates it: R, S, D, T… */
  readonly state: string;
  /** Clock ticks since the boot: with the pid, who a process is. */
  readonly start: string;
}

/** Every process that lives; none where there is no /proc. Zombies have ended already. */
export async function readProcesses(): Promise<ProcessRow[]> {
  const names = await readdir("/proc").catch(() => []);
  const rows = await Promise.all(
    names.filter((name) => /^\d+$/.test(name)).map((name) => readProcess(Number(name))),
  );
  return rows.filter((row) => row !== undefined);
}

export async function readProcess(pid: number): Promise<ProcessRow | undefined> {
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
  const environ = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
  return environ.split("\0").includes(variable);
}

/** The boot that pids and start times belong to. */
export async function readBootId(): Promise<string> {
  const id = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  return id.trim();
}
