import { readdirSync, readFileSync } from "node:fs";

export interface Descriptors {
  /** Files, sockets and pipes that this process has open. */
  readonly open: number;
  /** How many it may have open; undefined where the system does not tell. */
  readonly limit: number | undefined;
}

/** Undefined where the system does not tell. */
export function countDescriptors(): Descriptors | undefined {
  try {
    // The folder itself is open while it is read.
    return { open: readdirSync("/dev/fd").length - 1, limit: readLimit() };
  } catch {
    return undefined;
  }
}

function readLimit(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
