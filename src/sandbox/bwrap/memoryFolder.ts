import { accessSync, constants, statfsSync } from "node:fs";

const PLACE = "/dev/shm";
const TMPFS = 0x01021994;

let found: string | null | undefined;

/** A folder that lies in memory, where this host has one: a file in it costs a tenth of one on a disk. */
export function findMemoryFolder(): string | undefined {
  found ??= isUsable() ? PLACE : null;
  return found ?? undefined;
}

function isUsable(): boolean {
  try {
    accessSync(PLACE, constants.W_OK | constants.X_OK);
    return statfsSync(PLACE).type === TMPFS;
  } catch {
    return false;
  }
}
