import { sendSignal } from "../host/processes/kill.ts";
import { readChildren, readProcesses, readProcFile, type ProcessRow } from "../host/processes/procfs.ts";

/** The first child of a process; undefined where it has none. */
export async function findChild(pid: number): Promise<number | undefined> {
  const children = await readChildren(pid);
  if (children !== undefined) return children[0];
  return (await readProcesses()).find((row) => row.parent === pid)?.pid;
}

/** The agent's process below its wrapper: the one with pid 2 in the sandbox's pid namespace, where bwrap is pid 1. */
export async function findMain(
  wrapper: number,
  rows: readonly ProcessRow[],
): Promise<ProcessRow | undefined> {
  for (const pid of toDescendants(wrapper, rows)) {
    const status = (await readProcFile(`/proc/${pid}/status`)) ?? "";
    const numbers = /^NSpid:\s*(.*)$/m.exec(status)?.[1]?.split(/\s+/) ?? [];
    if (numbers.length > 1 && numbers.at(-1) === "2") return rows.find((row) => row.pid === pid);
  }
  return undefined;
}

/** Kills a process and all of its descendants, including those in a pid namespace below it. */
export async function endTree(pid: number): Promise<void> {
  for (const member of toDescendants(pid, await readProcesses())) sendSignal(member, "SIGKILL");
  // A child that was started after the list was read is still in the group of its parent.
  sendSignal(-pid, "SIGKILL");
  sendSignal(pid, "SIGKILL");
}

/** The pids of all descendants, the nearest first. */
function toDescendants(pid: number, rows: readonly ProcessRow[]): number[] {
  const found = [pid];
  for (const parent of found) {
    for (const row of rows) if (row.parent === parent && !found.includes(row.pid)) found.push(row.pid);
  }
  return found.slice(1);
}
