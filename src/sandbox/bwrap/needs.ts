import { realpath } from "node:fs/promises";
import { delimiter, dirname } from "node:path";
import { PINNED } from "../host/mapping.ts";
import type { Mount } from "./arguments.ts";
import { isOfSystem } from "./system.ts";

const SYSTEM_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** What a launch needs of the host, each with what it links to: a program looks for its parts beside the real file. */
export async function toNeeds(needs: readonly string[]): Promise<Mount[]> {
  const found = await Promise.all(
    needs.map(async (path) => {
      const real = await realpath(path).catch(() => undefined);
      return real === undefined ? [] : [path, real];
    }),
  );
  return [...new Set(found.flat())].map((path) => ({ host: path, inside: path, writable: false }));
}

/** The search path inside: programs that were named as needed are found by their names, too. */
export function toInnerPath(needs: readonly string[]): string {
  const folders = needs.filter((path) => !isOfSystem(path)).map((path) => dirname(path));
  return [...new Set([`${PINNED.home}/.local/bin`, ...folders, ...SYSTEM_PATH])].join(delimiter);
}
