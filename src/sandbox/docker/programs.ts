import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { findPrograms, type BridgePrograms } from "../bridge/programs.ts";

export interface DockerPrograms extends BridgePrograms {
  /** Holds the stdio of a process in a container (`exec/main.ts`). */
  readonly exec: string;
  /** Starts an agent inside of a container (`exec/launch.ts`). */
  readonly launch: string;
}

/** As the build has put them, from wherever this module was bundled to. */
export function findDockerPrograms(): DockerPrograms {
  const root = findRoot(dirname(fileURLToPath(import.meta.url)));
  return {
    ...findPrograms(),
    exec: join(root, "dist/agents/docker-exec.js"),
    launch: join(root, "dist/agents/docker-launch.js"),
  };
}

function findRoot(folder: string): string {
  if (existsSync(join(folder, "package.json"))) return folder;
  const parent = dirname(folder);
  if (parent === folder) throw new Error("sluice's own package.json was not found above its files");
  return findRoot(parent);
}
