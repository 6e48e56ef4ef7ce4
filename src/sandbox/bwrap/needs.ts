import { delimiter, dirname } from "node:path";
import { realpath, stat } from "../../disk/onTheSpot.ts";
import { PINNED } from "../host/mapping.ts";
import { refuseExposed } from "../host/exposed.ts";
import type { Mount } from "./arguments.ts";
import { isOfSystem } from "./system.ts";

const SYSTEM_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** What a launch needs of the host, each with what it links to: a program looks for its parts beside the real file. */
export async function toNeeds(needs: readonly string[], hide: readonly string[]): Promise<Mount[]> {
  const found = await Promise.all(
    needs.map(async (path) => {
      const real = await realpath(path).catch(() => undefined);
      return real === undefined ? [] : [path, real];
    }),
  );
  const paths = [...new Set(found.flat())];
  refuseExposed(paths, hide);
  return paths.map((path) => ({ host: path, inside: path, writable: false }));
}

/** The search path inside: programs that were named as needed are found by their names, too. */
export async function toInnerPath(needs: readonly string[]): Promise<string> {
  const folders = await Promise.all(
    needs.map(async (path) => {
      const isFile = !isOfSystem(path) && (await stat(path).catch(() => undefined))?.isFile();
      return isFile ? [dirname(path)] : [];
    }),
  );
  return [...new Set([`${PINNED.home}/.local/bin`, ...folders.flat(), ...SYSTEM_PATH])].join(delimiter);
}
