import * as fs from "node:fs";
import type * as promises from "node:fs/promises";

/*
 * The calls of node:fs/promises for small files of our own and of the kernel, done before they answer. What they touch
 * lies in memory: a round through the thread pool costs ten times as much as the call, and a start needs hundreds of
 * them (docs/decisions/0050). Not for files of a client, whose size and disk nobody knows.
 */
export const access: typeof promises.access = onTheSpot(fs.accessSync);
export const appendFile: typeof promises.appendFile = onTheSpot(fs.appendFileSync);
export const chmod: typeof promises.chmod = onTheSpot(fs.chmodSync);
export const chown: typeof promises.chown = onTheSpot(fs.chownSync);
export const copyFile: typeof promises.copyFile = onTheSpot(fs.copyFileSync);
export const lstat: typeof promises.lstat = onTheSpot(fs.lstatSync);
export const mkdir: typeof promises.mkdir = onTheSpot(fs.mkdirSync);
export const readFile: typeof promises.readFile = onTheSpot(fs.readFileSync);
export const readlink: typeof promises.readlink = onTheSpot(fs.readlinkSync);
export const realpath: typeof promises.realpath = onTheSpot(fs.realpathSync.native);
export const rename: typeof promises.rename = onTheSpot(fs.renameSync);
export const rm: typeof promises.rm = onTheSpot(fs.rmSync);
export const stat: typeof promises.stat = onTheSpot(fs.statSync);
export const statfs: typeof promises.statfs = onTheSpot(fs.statfsSync);
export const symlink: typeof promises.symlink = onTheSpot(fs.symlinkSync);
export const truncate: typeof promises.truncate = onTheSpot(fs.truncateSync);
export const writeFile: typeof promises.writeFile = onTheSpot(fs.writeFileSync);

/** What the call throws is a rejection, as its callers expect. */
function onTheSpot<F>(call: (...args: never[]) => unknown): F {
  return (async (...args: never[]) => call(...args)) as F;
}
