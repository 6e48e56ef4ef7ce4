import { SluiceError } from "../../contract/index.ts";
import { sqliteCode } from "./driver.ts";

const FULL = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC", "EDQUOT"]);

/** What a failure of the database or the file system means to whoever asked. */
export function toSluiceError(error: unknown, folder: string): unknown {
  if (error instanceof SluiceError) return error;
  const code = sqliteCode(error) ?? systemCode(error);
  if (code === undefined) return error;
  const [facts, cause] = [{ folder, code }, { cause: error }];
  if (FULL.has(code)) {
    const detail = `The disk is full: free space on ${folder} and try again. Nothing of this request was stored.`;
    return new SluiceError("storage_full", detail, facts, cause);
  }
  if (code === "SQLITE_BUSY" || code.startsWith("SQLITE_BUSY_")) {
    const detail = `Another process has held the catalog in ${folder} for too long. Nothing was stored; try again.`;
    return new SluiceError("timeout", detail, facts, cause);
  }
  const told = error instanceof Error ? error.message : String(error);
  const detail = `The catalog in ${folder} failed: ${told} (${code}). Nothing of this request was stored; check the disk and the folder's permissions.`;
  return new SluiceError("internal", detail, facts, cause);
}

function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("syscall" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
