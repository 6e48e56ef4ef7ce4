import { readProcFile, type ProcessRow } from "../host/procfs.ts";
import { toDescendants } from "./resident.ts";

/** The agent's own process below its wrapper: the first that bwrap started in the pid namespace. */
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
