import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The files of the egress programs: both ends of the proxy, and the preload for a Node that cannot use proxies. */
export interface EgressPrograms {
  readonly host: string;
  readonly guest: string;
  readonly preload?: string;
}

export interface DockerPrograms extends EgressPrograms {
  /** Holds the stdio of a process in a container (`exec/main.ts`). */
  readonly exec: string;
  /** Starts an agent inside a container (`exec/launch.ts`). */
  readonly launch: string;
}

/** The egress programs of the build, wherever this module was bundled to. */
export function findEgressPrograms(): EgressPrograms {
  const folder = findProgramFolder();
  return {
    host: join(folder, "egress-host.js"),
    guest: join(folder, "egress-guest.js"),
    preload: join(folder, "egress-preload.cjs"),
  };
}

export function findDockerPrograms(): DockerPrograms {
  const folder = findProgramFolder();
  return {
    ...findEgressPrograms(),
    exec: join(folder, "docker-exec.js"),
    launch: join(folder, "docker-launch.js"),
  };
}

function findProgramFolder(folder: string = dirname(fileURLToPath(import.meta.url))): string {
  if (existsSync(join(folder, "package.json"))) return join(folder, "dist", "agents");
  const parent = dirname(folder);
  if (parent === folder) throw new Error("sluice's own package.json was not found above its files");
  return findProgramFolder(parent);
}
