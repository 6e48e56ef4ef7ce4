import type { StdioOptions } from "node:child_process";
import { openSync, readdirSync, readFileSync } from "node:fs";

const FOLDER = "/proc/self/fdinfo";
const CLOSED_ON_EXEC = 0o2000000;

let inherited: { fds: readonly number[]; nothing: number } | undefined;

/** Whatever this server was started with, such as an open file of its starter, is no agent's business. */
export function withoutInherited(stdio: StdioOptions): StdioOptions {
  inherited ??= findInherited();
  const { fds, nothing } = inherited;
  if (fds.length === 0) return stdio;
  const all = Array.isArray(stdio) ? [...stdio] : [stdio, stdio, stdio];
  for (const fd of fds.filter((fd) => fd >= all.length)) {
    while (all.length < fd) all.push("ignore");
    // "ignore" does not close what is above 2, so something harmless takes its place.
    all[fd] = nothing;
  }
  return all;
}

/** Node opens its own descriptors so that no child sees them; of inherited ones it forgets those behind a gap. */
function findInherited(): { fds: readonly number[]; nothing: number } {
  const fds = listFds().filter((fd) => fd > 2 && !isClosedOnExec(fd));
  return { fds, nothing: fds.length === 0 ? -1 : openSync("/dev/null", "r+") };
}

function listFds(): number[] {
  try {
    return readdirSync(FOLDER)
      .map(Number)
      .toSorted((a, b) => a - b);
  } catch {
    return [];
  }
}

function isClosedOnExec(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)/m.exec(readFileSync(`${FOLDER}/${fd}`, "utf8"))?.[1];
    return (Number.parseInt(flags ?? "0", 8) & CLOSED_ON_EXEC) !== 0;
  } catch {
    // Gone already: the one that read the folder.
    return true;
  }
}
