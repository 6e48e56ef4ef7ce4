import { closeSync, constants, fstatSync, openSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { SluiceError, type ErrorCode } from "../../../contract/index.ts";
import { BY_DESCRIPTOR, O_PATH } from "./open-folder.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = constants;

/** An error like that of a file operation, for our own checks. */
export function fileError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** Opens a regular file for reading, by its path in an open folder. Pipes, devices and links are refused unopened. */
export function openRegular(path: string | Buffer): Promise<FileHandle> {
  return reopen(path, (held) => open(held, O_RDONLY | O_NONBLOCK));
}

/** As `openRegular`, but synchronous, for code that reads many files. Returns a descriptor. */
export function openRegularSync(path: string): number {
  const fd = hold(path);
  try {
    demandRegular(fstatSync(fd));
    return openSync(toHeldPath(fd, path), O_RDONLY | O_NONBLOCK | (BY_DESCRIPTOR ? 0 : O_NOFOLLOW));
  } finally {
    closeSync(fd);
  }
}

/** Makes a file; fails if the name exists. */
export function createFile(path: string | Buffer, mode: number): Promise<FileHandle> {
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
}

/** Empties an existing file and opens it for writing, unless `refuse` throws. */
export function openEmptied(path: string, refuse: (found: Stats) => void): Promise<FileHandle> {
  return reopen(path, (held) => open(held, O_WRONLY | O_TRUNC | O_NONBLOCK), refuse);
}

/** All of a file, at most `maxBytes`; undefined where it has more. It may grow while it is read. */
export async function readUpTo(handle: FileHandle, maxBytes: number): Promise<Buffer | undefined> {
  const { size } = await handle.stat();
  if (size > maxBytes) return undefined;
  let bytes = Buffer.allocUnsafe(Math.min(size + 1, maxBytes + 1));
  let filled = 0;
  for (;;) {
    if (filled === bytes.length) {
      const more = Buffer.allocUnsafe(Math.min(Math.max(2 * filled, 64 * 1024), maxBytes + 1));
      bytes.copy(more);
      bytes = more;
    }
    const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, null);
    if (bytesRead === 0) return bytes.subarray(0, filled);
    filled += bytesRead;
    if (filled > maxBytes) return undefined;
  }
}

/**
 * Checks an entry without opening it, then opens that same file, even if its name leads elsewhere by then. Without
 * /proc it is opened again by its name.
 */
async function reopen(
  path: string | Buffer,
  work: (held: string | Buffer) => Promise<FileHandle>,
  refuse?: (found: Stats) => void,
): Promise<FileHandle> {
  const fd = hold(path);
  try {
    const found = fstatSync(fd);
    demandRegular(found);
    refuse?.(found);
    return await work(toHeldPath(fd, path));
  } finally {
    closeSync(fd);
  }
}

/** Holds a file without opening it. A system without /proc has to open it; O_NONBLOCK then does not wait on a pipe. */
function hold(path: string | Buffer): number {
  return openSync(path, O_NOFOLLOW | (BY_DESCRIPTOR ? O_PATH : O_RDONLY | O_NONBLOCK));
}

function toHeldPath(fd: number, path: string | Buffer): string | Buffer {
  return BY_DESCRIPTOR ? `/proc/self/fd/${fd}` : path;
}

function demandRegular(found: Stats): void {
  if (found.isFile()) return;
  if (found.isDirectory()) throw fileError("EISDIR");
  throw fileError(found.isSymbolicLink() ? "ELOOP" : "ENXIO");
}

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

/** Runs a file operation, and maps its errors to the error table. */
export async function withFileErrors<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const [code, words] = CODES[(error as NodeJS.ErrnoException).code ?? ""] ?? [];
    if (error instanceof SluiceError || code === undefined) throw error;
    throw new SluiceError(code, `${path} ${words}.`, { path }, { cause: error });
  }
}
