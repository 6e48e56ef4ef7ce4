import { SluiceError } from "../contract/index.ts";
import { sqliteCode } from "./driver.ts";

const FULL = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]);

/** What a failure of the database or the file system means to whoever asked. */
export function toSluiceError(error: unknown, folder: string): unknown {
  if (error instanceof SluiceError) return error;
  const code = sqliteCode(error) ?? systemCode(error);
  if (code === undefined) return error;
  const cause = { cause: error };
  if (FULL.has(code)) {
    return new SluiceError(
      "storage_full",
      `The disk is full: free space on ${folder} and try again. Nothing was lost, and nothing of this request was stored.`,
      { folder },
      cause,
    );
  }
  if (code === "SQLITE_BUSY" || code.startsWith("SQLITE_BUSY_")) {
    return new SluiceError(
      "timeout",
      `Another process has held the database in ${folder} for too long. Nothing was stored; try again.`,
      { folder },
      cause,
    );
  }
  return new SluiceError(
    "internal",
    `The database in ${folder} failed: ${error instanceof Error ? error.message : String(error)} (${code}). Nothing of this request was stored; check the disk and the folder's permissions.`,
    { folder, code },
    cause,
  );
}

function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
