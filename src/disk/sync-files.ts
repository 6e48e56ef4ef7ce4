import * as fs from "node:fs";
import type * as promises from "node:fs/promises";

/*
 * The functions of node:fs/promises, which here finish before they return. They are for small files of the server and
 * the kernel, which are in memory: a round through the thread pool costs ten times as much as the call, and a start makes
 * hundreds of calls (docs/decisions/0050). They are not for files of a client, whose size and disk are unknown.
 */
export const access: typeof promises.access = toPromised(fs.accessSync);
export const appendFile: typeof promises.appendFile = toPromised(fs.appendFileSync);
export const chmod: typeof promises.chmod = toPromised(fs.chmodSync);
export const chown: typeof promises.chown = toPromised(fs.chownSync);
export const copyFile: typeof promises.copyFile = toPromised(fs.copyFileSync);
export const lstat: typeof promises.lstat = toPromised(fs.lstatSync);
export const mkdir: typeof promises.mkdir = toPromised(fs.mkdirSync);
export const readFile: typeof promises.readFile = toPromised(fs.readFileSync);
export const readlink: typeof promises.readlink = toPromised(fs.readlinkSync);
export const realpath: typeof promises.realpath = toPromised(fs.realpathSync.native);
export const rename: typeof promises.rename = toPromised(fs.renameSync);
export const rm: typeof promises.rm = toPromised(removeNow);
export const stat: typeof promises.stat = toPromised(fs.statSync);
export const statfs: typeof promises.statfs = toPromised(fs.statfsSync);
export const symlink: typeof promises.symlink = toPromised(fs.symlinkSync);
export const truncate: typeof promises.truncate = toPromised(fs.truncateSync);
export const writeFile: typeof promises.writeFile = toPromised(fs.writeFileSync);

/** Makes a synchronous call look like a promise: an exception becomes a rejection. */
function toPromised<F>(call: (...args: never[]) => unknown): F {
  return (async (...args: never[]) => call(...args)) as F;
}

/** With `force`, a path below a file counts as removed, like one that does not exist. */
function removeNow(path: fs.PathLike, options?: fs.RmOptions): void {
  try {
    fs.rmSync(path, options);
  } catch (error) {
    if (options?.force !== true || (error as NodeJS.ErrnoException).code !== "ENOTDIR") throw error;
  }
}
