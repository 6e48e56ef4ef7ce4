import { randomBytes } from "node:crypto";
import { renameSync } from "node:fs";
import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { ignoring } from "./open-file.ts";
import { OpenFolder } from "./open-folder.ts";

const absent = ignoring("ENOENT");
/** An agent that still runs may put entries back again and again. */
const TRIES = 20;
/** Errors of a folder that an agent has filled again or replaced meanwhile. */
const CHANGED = new Set(["ENOTEMPTY", "EEXIST", "ENOTDIR", "EISDIR", "ELOOP"]);
/** Each level holds a descriptor, and an agent can nest folders without end. */
const MOST_LEVELS = 64;
const MOST_LIFTED = 10_000;

/** Removes a file or a whole folder of the server's own; the path has no symlink in it. */
export async function removeTree(path: string): Promise<void> {
  const parent = openParent(path);
  try {
    if (parent !== undefined) await removeEntry(parent, basename(path));
  } finally {
    parent?.close();
  }
}

/**
 * Removes an entry of an open folder with its whole content. It descends through open folders, so no symlink can lead
 * it elsewhere.
 */
export async function removeEntry(folder: OpenFolder, name: string): Promise<void> {
  const found = await lstat(folder.at(name)).catch(absent);
  if (found === undefined) return;
  const removal = { top: folder, level: 0, lifted: [] };
  await remove({ folder, name, isFolder: found.isDirectory() }, removal);
  // The list grows during the loop.
  for (const next of removal.lifted) await remove({ folder, name: next, isFolder: true }, removal);
}

/** Removes a folder that we made in a client's directory, if it is still empty. */
export async function removeEmptyFolder(path: string): Promise<void> {
  const parent = openParent(path);
  try {
    if (parent !== undefined) await rmdir(parent.at(basename(path))).catch(() => {});
  } finally {
    parent?.close();
  }
}

interface Removal {
  readonly top: OpenFolder;
  readonly level: number;
  /** Folders that were nested too deep, moved to the top under temporary names. */
  readonly lifted: string[];
}

interface Target {
  readonly folder: OpenFolder;
  /** As bytes where an agent chose it: not every name is UTF-8. */
  readonly name: string | Buffer;
  readonly isFolder: boolean;
}

async function remove({ folder, name, isFolder }: Target, removal: Removal): Promise<void> {
  const path = folder.at(name);
  for (let tries = 1; ; tries += 1) {
    try {
      if (!isFolder) return await unlink(path);
      if (removal.level >= MOST_LEVELS && lift(path, removal)) return;
      await empty(folder, name, removal);
      return await rmdir(path);
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return;
      const found = await lstat(path).catch(absent);
      if (found === undefined) return;
      const isOtherKind = found.isDirectory() !== isFolder;
      if (tries === TRIES || !(isOtherKind || CHANGED.has(code))) throw error;
      isFolder = found.isDirectory();
    }
  }
}

async function empty(parent: OpenFolder, name: string | Buffer, removal: Removal): Promise<void> {
  const folder = parent.open(name);
  try {
    const { uid, mode } = folder.stat();
    // Package managers write-protect their caches, and a folder that cannot be written cannot be emptied.
    if (uid === process.geteuid?.() && (mode & 0o700) !== 0o700) folder.chmod(0o700);
    const below = { ...removal, level: removal.level + 1 };
    for (const entry of await readdir(folder.path, { withFileTypes: true, encoding: "buffer" })) {
      await remove({ folder, name: entry.name, isFolder: entry.isDirectory() }, below);
    }
  } finally {
    folder.close();
  }
}

/** Moves a folder to the top, to be removed there. False where that fails and the caller has to descend after all. */
function lift(path: string | Buffer, { top, lifted }: Removal): boolean {
  if (lifted.length === MOST_LIFTED) return false;
  const name = `.sluice-removed-${randomBytes(8).toString("hex")}`;
  try {
    renameSync(path, top.at(name));
    lifted.push(name);
    return true;
  } catch {
    return false;
  }
}

function openParent(path: string): OpenFolder | undefined {
  try {
    return OpenFolder.openReal(dirname(path));
  } catch (error) {
    return absent(error as NodeJS.ErrnoException);
  }
}
