import type { ChildProcess } from "node:child_process";
import { sendSignal } from "../host/kill.ts";
import { readBootId, readChildren, readProcess, readProcesses, type ProcessRow } from "../host/procfs.ts";

/** A process that stays in a sandbox on its behalf, known again after a restart of the server. */
export interface Resident {
  readonly pid: number;
  readonly start: string;
  readonly boot: string;
}

/**
 * What a resident runs after its preparations: it says that it is there, and waits at its tie. Its end is that of all
 * it has brought along; the second process of a pid namespace can be nobody but itself.
 */
export const RESIDENT_COMMAND = [
  "/bin/sh",
  "-c",
  "echo ready; exec >&- 2>&-; read -r _; [ $$ != 2 ] || kill -9 -1",
];

export async function toResident(pid: number): Promise<Resident> {
  const row = await readProcess(pid);
  return { pid, start: row?.start ?? "", boot: await readBootId() };
}

export async function isResident(resident: Resident | undefined): Promise<boolean> {
  if (resident === undefined) return false;
  const row = await readProcess(resident.pid);
  return row?.start === resident.start && resident.boot === (await readBootId());
}

/** The one child of a process of ours. */
export async function findChild(pid: number): Promise<number | undefined> {
  const children = await readChildren(pid);
  if (children !== undefined) return children[0];
  return (await readProcesses()).find((row) => row.parent === pid)?.pid;
}

/** Waits for `ready`; fails with what it said instead. */
export async function awaitReady(child: ChildProcess): Promise<void> {
  let said = "";
  await new Promise<void>((resolve, reject) => {
    const fail = (): void => reject(new Error(said.trim() || "it ended at once"));
    child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString("utf8")));
    child.stdout?.on("data", (chunk: Buffer) => {
      said += chunk.toString("utf8");
      if (/^ready$/m.test(said)) resolve();
    });
    child.once("close", fail);
  });
  child.stdout?.destroy();
  child.stderr?.destroy();
  child.unref();
}

/** Ends a process with all that descends from it, also what lives in a pid namespace below it. */
export async function endTree(pid: number): Promise<void> {
  for (const member of toDescendants(pid, await readProcesses())) sendSignal(member, "SIGKILL");
  // A namespace that is just being made is still in the group of its maker.
  sendSignal(-pid, "SIGKILL");
  sendSignal(pid, "SIGKILL");
}

/** The nearest first. */
export function toDescendants(pid: number, rows: readonly ProcessRow[]): number[] {
  const found = [pid];
  for (const parent of found) {
    for (const row of rows) if (row.parent === parent && !found.includes(row.pid)) found.push(row.pid);
  }
  return found.slice(1);
}
