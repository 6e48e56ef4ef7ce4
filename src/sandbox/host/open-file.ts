import { closeSync, constants, fstatSync, openSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { BY_DESCRIPTOR, O_PATH } from "./open-folder.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = constants;

/** An error as a file operation has it, for what we find out before the kernel would say it. */
export function fileError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** Opens a regular file for reading, by the name of an entry in an open folder. Nothing else is ever opened. */
export function openRegular(path: string | Buffer): Promise<FileHandle> {
  return reopen(path, (held) => open(held, O_RDONLY | O_NONBLOCK));
}

/** The same at once, for code that reads many. Answers a descriptor. */
export function openRegularSync(path: string): number {
  const fd = hold(path);
  try {
    demandRegular(fstatSync(fd));
    return openSync(toHeldPath(fd, path), O_RDONLY | O_NONBLOCK | (BY_DESCRIPTOR ? 0 : O_NOFOLLOW));
  } finally {
    closeSync(fd);
  }
}

/** Makes a file that was not there. */
export function createFile(path: string | Buffer, mode: number): Promise<FileHandle> {
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
}

/** Empties a file that is there and opens it for writing, unless `refuse` throws for what it is. */
export function openEmptied(path: string, refuse: (found: Stats) => void): Promise<FileHandle> {
  return reopen(path, (held) => open(held, O_WRONLY | O_TRUNC | O_NONBLOCK), refuse);
}

/** All of a file, at most so many bytes; undefined where it has more. It may grow while it is read. */
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

/** Looks at what is there without opening it, and only then opens that very file, whatever its name leads to by now. */
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

/** Without descriptors in /proc a pipe is opened, too, but nobody waits for its other end. */
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
