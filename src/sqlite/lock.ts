import { existsSync, rmSync } from "node:fs";
import { createDriver } from "./driver.ts";

export interface FileLock {
  /** Releases the lock and removes the file. */
  release(): void;
}

/**
 * Locks a file until the lock is released or the process ends. The kernel holds the lock, so it counts in other
 * containers, too, and on every shared folder that can hold a database. Undefined where another process has it.
 */
export function lockFile(file: string): FileLock | undefined {
  const driver = createDriver(file);
  try {
    driver.exec("PRAGMA busy_timeout = 0");
    // No journal file: the lock writes nothing to the database.
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
  // Another process has released its lock and removed the file meanwhile, so ours is on a file that nobody else sees.
  release();
  return undefined;
}

/** Whether a process holds the lock of a file. Changes nothing, unlike the attempt to take it. */
export function isLocked(file: string): boolean {
  if (!existsSync(file)) return false;
  const driver = createDriver(file);
  try {
    driver.exec("PRAGMA busy_timeout = 0");
    driver.prepare("PRAGMA journal_mode = OFF").get();
    driver.exec("BEGIN EXCLUSIVE");
    driver.exec("ROLLBACK");
    return false;
  } catch {
    return true;
  } finally {
    driver.close();
  }
}
