import { SluiceError } from "../contract/index.ts";

/** Whether an error means a full disk. ENOSPC of the call `watch` means too many file watches. */
export function isFullDisk(error: unknown): boolean {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  return (code === "ENOSPC" || code === "EDQUOT") && syscall !== "watch";
}

/** The error of a full disk with this detail, which says what to do; any other error unchanged. */
export function toStorageError(error: unknown, detail: string): unknown {
  return isFullDisk(error) ? new SluiceError("storage_full", detail, {}, { cause: error }) : error;
}
