import { closeSync, constants, fstatSync, openSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { Readable } from "node:stream";
import { callbackify } from "node:util";
import { SluiceError, type ErrorCode } from "../../../contract/index.ts";
import type { Owner } from "../../port.ts";
import { BY_DESCRIPTOR, O_PATH, ownerUid, type OpenFolder } from "./open-folder.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = constants;

/** An error like that of a file operation, for our own checks. */
export function fileError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** For a `catch`: these errors become undefined, all others are thrown. */
export function ignoring(...codes: readonly string[]): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (!codes.includes(error.code ?? "")) throw error;
    return undefined;
  };
}

export function succeeds(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => true,
    () => false,
  );
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
function openEmptied(path: string, refuse: (found: Stats) => void): Promise<FileHandle> {
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
  ENOTDIR: ["file_not_found", "is not a folder, or leads through an entry that is not a folder"],
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

/** Runs a file operation, and maps its errors to the error table. The path is the one to show. */
export async function withFileErrors<T>(
  shown: string | ((failed: string | undefined) => string),
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const [code, words] = CODES[(error as NodeJS.ErrnoException).code ?? ""] ?? [];
    if (error instanceof SluiceError || code === undefined) throw error;
    const path = typeof shown === "string" ? shown : shown((error as NodeJS.ErrnoException).path);
    throw new SluiceError(code, `${path} ${words}.`, { path }, { cause: error });
  }
}

const MAX_READ_BYTES = 512 * 1024 * 1024;
const CHUNK = 256 * 1024;

/** The first `size` bytes of a file. The stream closes the handle when it ends or is destroyed. */
export function readExactly(handle: FileHandle, size: number): Readable {
  let position = 0;
  const close = callbackify(() => handle.close());
  const readNext = async (): Promise<Buffer | null> => {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK, size - position));
    if (chunk.length === 0) return null;
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) throw new Error(`The file has become shorter than the ${size} bytes that it had.`);
    position += bytesRead;
    return chunk.subarray(0, bytesRead);
  };
  return new Readable({
    highWaterMark: CHUNK,
    read() {
      readNext().then(
        (chunk) => this.push(chunk),
        (error: Error) => this.destroy(error),
      );
    },
    destroy: (error, done) => close((failed) => done(error ?? failed)),
  });
}

export async function readAll(handle: FileHandle, path: string): Promise<Uint8Array> {
  const bytes = await readUpTo(handle, MAX_READ_BYTES);
  if (bytes !== undefined) return bytes;
  const { size } = await handle.stat();
  const detail = `${path} has ${size} bytes; at most ${MAX_READ_BYTES} are read at once.`;
  throw new SluiceError("too_large", detail);
}

/** An agent may remove the file before we open it. */
const TRIES = 5;

/** Opens a file for writing: an existing one is emptied, a new one is given to the owner. */
export async function openForWriting(
  { folder, name }: { readonly folder: OpenFolder; readonly name: string },
  { given, owner, mode }: { given: string; owner: Owner | undefined; mode: number | undefined },
): Promise<FileHandle> {
  const path = folder.at(name);
  const own = ownerUid(owner);
  for (let tries = 1; ; tries += 1) {
    let isNew = true;
    const check = (found: Stats): void => {
      refuseOthers(found, given, own);
      isNew = isLeftBehind(found);
    };
    const handle =
      (await createFile(path, mode ?? 0o666).catch(ignoring("EEXIST"))) ??
      (await openEmptied(path, check).catch(ignoring("ENOENT")));
    if (handle === undefined && tries === TRIES) throw fileError("ENOENT");
    if (handle === undefined) continue;
    try {
      await (isNew ? setUp(handle, owner, mode) : setMode(handle, own, mode));
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }
}

/** Whether a server made the file and was killed before it gave it to the owner: until then the file is empty. */
function isLeftBehind({ uid, size, nlink }: Stats): boolean {
  return uid === process.geteuid?.() && size === 0 && nlink === 1;
}

/** Sets owner and mode of a file that we have just made. */
async function setUp(handle: FileHandle, owner: Owner | undefined, mode: number | undefined): Promise<void> {
  if (owner !== undefined) await handle.chown(owner.uid, owner.gid);
  if (mode !== undefined) await handle.chmod(mode);
}

/** Sets the mode of an existing file. Another user's file keeps its mode, without the set-user-id bits. */
async function setMode(handle: FileHandle, own: number | undefined, mode: number | undefined): Promise<void> {
  const found = await handle.stat();
  const wanted = mode !== undefined && found.uid === own ? mode : found.mode & 0o1777;
  if ((found.mode & 0o7777) !== wanted) await handle.chmod(wanted);
}

/** Refuses a file of another user that has several names: an agent may have linked to it, to change it through us. */
function refuseOthers({ uid, nlink }: Stats, path: string, own: number | undefined): void {
  if (nlink === 1 || uid === own) return;
  const detail = `${path} is one of several names of a file that belongs to another user, so it is left alone. Remove it first.`;
  throw new SluiceError("permission_denied", detail, { path });
}
