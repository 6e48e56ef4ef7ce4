import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The bridge's two ends, and what teaches an old Node the way between them: each is one file. */
export interface BridgePrograms {
  readonly host: string;
  readonly guest: string;
  readonly preload?: string;
}

/** As the build has put them, from wherever this module was bundled to. */
export function findPrograms(from: string = import.meta.url): BridgePrograms {
  const folder = join(findDist(dirname(fileURLToPath(from))), "agents");
  return {
    host: join(folder, "bridge-host.js"),
    guest: join(folder, "bridge-guest.js"),
    preload: join(folder, "bridge-preload.cjs"),
  };
}

function findDist(folder: string): string {
  if (existsSync(join(folder, "package.json"))) return join(folder, "dist");
  const parent = dirname(folder);
  if (parent === folder) throw new Error("sluice's own package.json was not found above its files");
  return findDist(parent);
}
