import { SluiceError } from "../contract/index.ts";

/** The codes of a full disk. */
const FULL_DISK = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]);

/** Maps a failure of the database or the file system to the error table, such as a full disk to `storage_full`. */
export function toSluiceError(error: unknown, folder: string): unknown {
  if (error instanceof SluiceError) return error;
  const code = sqliteCode(error) ?? systemCode(error);
  if (code === undefined) return error;
  const cause = { cause: error };
  if (FULL_DISK.has(code)) {
    const detail = `The disk is full: free space on ${folder} and try again. Nothing was lost, and nothing of this request was stored.`;
    return new SluiceError("storage_full", detail, { folder }, cause);
  }
  if (code === "SQLITE_BUSY" || code.startsWith("SQLITE_BUSY_")) {
    const detail = `Another process has held the database in ${folder} for too long. Nothing was stored; try again.`;
    return new SluiceError("timeout", detail, { folder }, cause);
  }
  const message = error instanceof Error ? error.message : String(error);
  const detail = `The database in ${folder} failed: ${message} (${code}). Nothing of this request was stored; check the disk and the folder's permissions.`;
  return new SluiceError("internal", detail, { folder, code }, cause);
}

/** The name of an SQLite error's result code, such as `SQLITE_FULL`. */
export function sqliteCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" && error.code.startsWith("SQLITE_") ? error.code : undefined;
}

function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
