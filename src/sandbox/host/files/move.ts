import { randomBytes } from "node:crypto";
import { lstatSync, renameSync } from "node:fs";
import { SluiceError } from "../../../contract/index.ts";
import { copyEntry } from "./copy-tree.ts";
import type { InFolder } from "./lookup.ts";
import { removeEntry } from "./remove-tree.ts";

type Entry = Pick<InFolder, "folder" | "name">;

/** Moves an entry between open folders, also to another disk. `said` is the new path as the caller named it. */
export async function moveEntry(
  from: Entry,
  to: Entry,
  { overwrite, said }: { overwrite: boolean; said: string },
): Promise<void> {
  if (!overwrite) demandFree(to, said);
  try {
    await renameOver(from, to, { overwrite });
  } catch (error) {
    // The workspace may be a user's folder on another disk than the rest of the sandbox.
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    await moveToOtherDisk(from, to, { overwrite });
  }
}

/** Fails where the new path exists: without `overwrite` a move must not destroy an entry. */
function demandFree({ folder, name }: Entry, said: string): void {
  const found = lstatSync(folder.at(name), { throwIfNoEntry: false });
  if (found === undefined) return;
  const detail = `${said} exists already. Choose another name, or ask to overwrite it.`;
  throw new SluiceError("invalid_request", detail);
}

const IN_THE_WAY = new Set(["EEXIST", "EISDIR", "ENOTDIR", "ENOTEMPTY"]);

/** Renames. The kernel replaces a file by itself; another entry at the target is removed first, if allowed. */
async function renameOver(from: Entry, to: Entry, { overwrite }: { overwrite: boolean }): Promise<void> {
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
async function moveToOtherDisk(from: Entry, to: Entry, options: { overwrite: boolean }): Promise<void> {
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
