import { SluiceError, type ErrorCode } from "../../contract/index.ts";

const CODES: Record<string, readonly [ErrorCode, string]> = {
  ENOENT: ["file_not_found", "does not exist"],
  ENOTDIR: ["file_not_found", "leads through something that is not a folder, or is none itself"],
  ELOOP: ["permission_denied", "leads through a symlink that may not be followed"],
  EACCES: ["permission_denied", "is not open to the user that the server runs as"],
  EPERM: ["permission_denied", "cannot be changed by the user that the server runs as"],
  EBUSY: ["permission_denied", "is in use by the system, such as a disk that is mounted there"],
  EROFS: ["permission_denied", "is on a disk that cannot be written"],
  EISDIR: ["invalid_request", "is a folder; name a file"],
  EEXIST: ["invalid_request", "exists already; choose another name"],
  ENOTEMPTY: ["invalid_request", "is a folder that is not empty; ask for a recursive removal"],
  EINVAL: ["invalid_request", "cannot be moved into itself"],
  ENAMETOOLONG: ["invalid_request", "is too long for a path"],
  ENXIO: ["invalid_request", "is not a regular file"],
  ENOSPC: ["storage_full", "does not fit on the disk; free some space and try again"],
  EDQUOT: ["storage_full", "does not fit into the quota; free some space and try again"],
};

/** Runs a file operation, and says what went wrong in the words of the error table. */
export async function withFileErrors<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const [code, words] = CODES[(error as NodeJS.ErrnoException).code ?? ""] ?? [];
    if (error instanceof SluiceError || code === undefined) throw error;
    throw new SluiceError(code, `${path} ${words}.`, { path }, { cause: error });
  }
}
