import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { SluiceError } from "../../../contract/index.ts";
import { ownerUid, type Owner } from "../owner.ts";
import type { InFolder } from "./lookup.ts";
import { createFile, fileError, openEmptied } from "./open-file.ts";

/** An agent may remove the file before we open it. */
const TRIES = 5;

/** Opens a file for writing: an existing one is emptied, a new one is given to the owner. */
export async function openForWriting(
  { folder, name }: InFolder,
  { said, owner, mode }: { said: string; owner: Owner | undefined; mode: number | undefined },
): Promise<FileHandle> {
  const path = folder.at(name);
  for (let tries = 1; ; tries += 1) {
    const made = await createFile(path, mode ?? 0o666).catch(unless("EEXIST"));
    if (made !== undefined) return setUp(made, { owner, mode });
    let isUnfinished = false;
    const check = (found: Stats): void => {
      refuseOthers(found, said, ownerUid(owner));
      isUnfinished = isLeftBehind(found);
    };
    const existing = await openEmptied(path, check).catch(unless("ENOENT"));
    if (existing !== undefined && isUnfinished) return setUp(existing, { owner, mode });
    if (existing !== undefined) return setMode(existing, { uid: ownerUid(owner), mode });
    if (tries === TRIES) throw fileError("ENOENT");
  }
}

/** Whether a server made the file and was killed before it gave it to the owner: until then the file is empty. */
function isLeftBehind({ uid, size, nlink }: Stats): boolean {
  return uid === process.geteuid?.() && size === 0 && nlink === 1;
}

/** Sets owner and mode of a file that we have just made. */
async function setUp(
  handle: FileHandle,
  { owner, mode }: { owner: Owner | undefined; mode: number | undefined },
): Promise<FileHandle> {
  try {
    if (owner !== undefined) await handle.chown(owner.uid, owner.gid);
    if (mode !== undefined) await handle.chmod(mode);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Sets the mode of an existing file. Another user's file keeps its mode, without the set-user-id bits. */
async function setMode(
  handle: FileHandle,
  { uid, mode }: { uid: number | undefined; mode: number | undefined },
): Promise<FileHandle> {
  try {
    const found = await handle.stat();
    const wanted = mode !== undefined && found.uid === uid ? mode : found.mode & 0o1777;
    if ((found.mode & 0o7777) !== wanted) await handle.chmod(wanted);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Refuses a file of another user that has several names: an agent may have linked to it, to change it through us. */
function refuseOthers({ uid, nlink }: Stats, said: string, own: number | undefined): void {
  if (nlink === 1 || uid === own) return;
  const detail = `${said} is one of several names of a file that belongs to another user, so it is left alone. Remove it first.`;
  throw new SluiceError("permission_denied", detail, { path: said });
}

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
    return undefined;
  };
}
