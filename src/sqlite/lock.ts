import { existsSync, rmSync } from "node:fs";
import { createDriver } from "./driver.ts";

export interface FileLock {
  /** Takes the file away with it. */
  release(): void;
}

/**
 * The file's lock, until it is released or the process is no more: the kernel keeps it, so that it counts in other
 * containers too, and on shared folders where the database itself can be used. Undefined where somebody else has it.
 */
export function lockFile(file: string): FileLock | undefined {
  const driver = createDriver(file);
  try {
    driver.exec("PRAGMA busy_timeout = 0");
    // Nothing is ever written: without this there is a second file beside the first.
    driver.prepare("PRAGMA journal_mode = OFF").get();
    driver.exec("BEGIN EXCLUSIVE");
  } catch {
    driver.close();
    return undefined;
  }
  let isHeld = true;
  const release = (): void => {
    if (!isHeld) return;
    isHeld = false;
    rmSync(file, { force: true });
    driver.close();
  };
  if (existsSync(file)) return { release };
  // Somebody had it for a moment and took the file away: ours is a lock that nobody else can see.
  release();
  return undefined;
}
