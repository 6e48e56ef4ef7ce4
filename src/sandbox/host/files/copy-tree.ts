import { randomBytes } from "node:crypto";
import { chownSync, lstatSync, readlinkSync, renameSync, utimesSync, type Stats } from "node:fs";
import { readdir, type FileHandle } from "node:fs/promises";
import { SluiceError } from "../../../contract/index.ts";
import type { Owner } from "../../port.ts";
import { createFile, fileError, openRegular } from "./open-file.ts";
import { OpenFolder } from "./open-folder.ts";
import { removeEntry } from "./remove-tree.ts";

/** A sparse file can claim any size; no real file is larger than this. */
const FILE_LIMIT = 16 * 1024 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;
/** Each level holds two descriptors. */
const MOST_LEVELS = 100;

interface CopyOptions {
  /** The owner of the copy; each file's own by default. */
  readonly owner?: Owner | undefined;
  /** Whether the content of a folder is added to an existing one. Only for a target without other writers. */
  readonly merge?: boolean;
}

interface Entry {
  readonly folder: OpenFolder;
  readonly name: string | Buffer;
}

/**
 * Copies an entry of one open folder into another, under a free name. Modes and times stay, set-user-id bits do not.
 * Links stay links. Every file on either side is reached through its open folder.
 */
async function copyEntry(from: Entry, to: Entry, options: CopyOptions = {}, level = 0): Promise<void> {
  const found = lstatSync(from.folder.at(from.name));
  if (found.isSymbolicLink()) {
    const owner = options.owner ?? ownerOfCopy(found);
    return to.folder.link(to.name, readlinkSync(from.folder.at(from.name), "buffer"), owner);
  }
  if (found.isDirectory()) return copyFolder(from, to, options, level);
  if (found.isFile()) return copyFile(from, to, options);
  const detail = `${from.name.toString()} is neither a file nor a folder nor a link, so it cannot be brought to another disk. Remove it first.`;
  throw new SluiceError("invalid_request", detail, { name: from.name.toString() });
}

async function copyContents(
  from: OpenFolder,
  to: OpenFolder,
  options: CopyOptions = {},
  level = 0,
): Promise<void> {
  for (const name of await readdir(from.path, { encoding: "buffer" })) {
    await copyEntry({ folder: from, name }, { folder: to, name }, options, level);
  }
}

/**
 * Fills a sandbox's folder, before its first use, with a copy of another folder of this host. Neither path has a
 * symlink in it.
 */
export async function fillFolder(folder: string, from: string, owner: Owner | undefined): Promise<void> {
  const source = OpenFolder.openReal(from);
  try {
    const target = OpenFolder.openReal(folder);
    const copyOwner = owner ?? { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 };
    await copyContents(source, target, { owner: copyOwner, merge: true }).finally(() => target.close());
  } finally {
    source.close();
  }
}

async function copyFolder(from: Entry, to: Entry, options: CopyOptions, level: number): Promise<void> {
  if (level === MOST_LEVELS) {
    const detail = `${from.name.toString()} lies more than ${MOST_LEVELS} folders deep, so it cannot be brought to another disk.`;
    throw new SluiceError("invalid_request", detail);
  }
  const source = from.folder.open(from.name);
  try {
    const made = options.merge ? to.folder.make(to.name, { mode: 0o700 }) : makeNew(to);
    try {
      await copyContents(source, made, options, level + 1);
      const found = source.stat();
      const owner = options.owner ?? ownerOfCopy(found);
      if (owner !== undefined) chownSync(made.path, owner.uid, owner.gid);
      made.chmod(found.mode & 0o1777);
      utimesSync(made.path, found.atime, found.mtime);
    } finally {
      made.close();
    }
  } finally {
    source.close();
  }
}

/** Makes a folder; fails if another one stands in its place, which has content or another owner. */
function makeNew({ folder, name }: Entry): OpenFolder {
  const made = folder.make(name, { mode: 0o700 });
  if (made.stat().uid === process.geteuid?.() && made.names().length === 0) return made;
  made.close();
  throw fileError("EEXIST");
}

async function copyFile(from: Entry, to: Entry, options: CopyOptions): Promise<void> {
  const source = await openRegular(from.folder.at(from.name));
  try {
    const found = await source.stat();
    if (found.size > FILE_LIMIT) {
      const detail = `${from.name.toString()} has ${found.size} bytes; at most ${FILE_LIMIT} are brought to another disk.`;
      throw new SluiceError("too_large", detail);
    }
    const target = await createFile(to.folder.at(to.name), 0o600);
    try {
      await copyBytes(source, target, found.size);
      const owner = options.owner ?? ownerOfCopy(found);
      if (owner !== undefined) await target.chown(owner.uid, owner.gid);
      await target.chmod(found.mode & 0o777);
      await target.utimes(found.atime, found.mtime);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** Copies the first `size` bytes, even if the file grows meanwhile. Blank parts become holes. */
async function copyBytes(source: FileHandle, target: FileHandle, size: number): Promise<void> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(1, size)));
  for (let at = 0; at < size;) {
    const { bytesRead } = await source.read(chunk, 0, Math.min(chunk.length, size - at), at);
    if (bytesRead === 0) break;
    const bytes = chunk.subarray(0, bytesRead);
    if (!isBlank(bytes)) await writeAll(target, bytes, at);
    at += bytesRead;
  }
  await target.truncate(size);
}

async function writeAll(target: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += (await target.write(bytes, written, bytes.length - written, at + written)).bytesWritten;
  }
}

function isBlank(bytes: Buffer): boolean {
  // If the bytes equal themselves shifted by one, all of them equal the first.
  return bytes[0] === 0 && bytes.subarray(1).equals(bytes.subarray(0, -1));
}

/** The owner of a copy. Only root can keep the owner of the source; another user's copies are the user's own. */
function ownerOfCopy({ uid, gid }: Stats): Owner | undefined {
  return process.geteuid?.() === 0 && uid !== 0 ? { uid, gid } : undefined;
}

type NamedEntry = Entry & { readonly name: string };

/** Moves an entry between open folders, also to another disk. `given` is the new path as the caller gave it. */
export async function moveEntry(
  from: NamedEntry,
  to: NamedEntry,
  { overwrite, given }: { overwrite: boolean; given: string },
): Promise<void> {
  if (!overwrite) demandFree(to, given);
  try {
    await renameOver(from, to, { overwrite });
  } catch (error) {
    // The workspace may be a user's folder on another disk than the rest of the sandbox.
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    await moveToOtherDisk(from, to, { overwrite });
  }
}

/** Fails where the new path exists: without `overwrite` a move must not destroy an entry. */
function demandFree({ folder, name }: NamedEntry, given: string): void {
  const found = lstatSync(folder.at(name), { throwIfNoEntry: false });
  if (found === undefined) return;
  const detail = `${given} exists already. Choose another name, or ask to overwrite it.`;
  throw new SluiceError("invalid_request", detail);
}

const IN_THE_WAY = new Set(["EEXIST", "EISDIR", "ENOTDIR", "ENOTEMPTY"]);

/** Renames. The kernel replaces a file by itself; another entry at the target is removed first, if allowed. */
async function renameOver(
  from: NamedEntry,
  to: NamedEntry,
  { overwrite }: { overwrite: boolean },
): Promise<void> {
  const rename = (): void => renameSync(from.folder.at(from.name), to.folder.at(to.name));
  try {
    rename();
  } catch (error) {
    if (!overwrite || !IN_THE_WAY.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    await removeEntry(to.folder, to.name);
    rename();
  }
}

/** Copies under a temporary name, and renames when the copy is complete. */
async function moveToOtherDisk(
  from: NamedEntry,
  to: NamedEntry,
  options: { overwrite: boolean },
): Promise<void> {
  const copy = { folder: to.folder, name: `.sluice-move-${randomBytes(8).toString("hex")}` };
  try {
    await copyEntry(from, copy);
    await renameOver(copy, to, options);
  } catch (error) {
    await removeEntry(copy.folder, copy.name).catch(() => {});
    throw error;
  }
  await removeEntry(from.folder, from.name);
}
