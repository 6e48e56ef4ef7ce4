import { join, relative } from "node:path";
import { detectBwrap, findBwrap, toDropPrefix, toOuterPath } from "../bwrap/detect.ts";
import { toStage } from "../bwrap/stage.ts";
import { isOfSystem, systemMounts } from "../bwrap/system.ts";
import { isInside } from "../host/mapping.ts";
import { OpenFolder } from "../host/open-folder.ts";
import type { Owner } from "../host/owner.ts";

export interface Command {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** How git is kept from everything but the repository that it looks at. */
export interface Confinement {
  /** What a path of this host is called in there. */
  at(path: string): string;
  /** The command that runs another one in there. Its paths and those of its variables are the ones in there. */
  wrap(command: Command): Command;
}

export interface Confined {
  /** The program itself. */
  readonly git: string;
  /** Seen by it: the first two read-only. */
  readonly worktree: string;
  readonly objects: string;
  readonly place: string;
  /** Whose the worktree is, where that is not the server's own user. */
  readonly owner: Owner | undefined;
}

/** For a repository whose writer is trusted with all that the server may do. */
export const UNCONFINED: Confinement = { at: (path) => path, wrap: (command) => command };

const WORKTREE = "/mnt/worktree";
const PLACE = "/mnt/place";
const OBJECTS = "/mnt/objects";
/** A repository can make git ask for any amount of memory. */
const MEMORY_BYTES = 2 * 1024 ** 3;

/**
 * In namespaces of its own git sees the system's programs, the worktree and our private folder, and has no network and no
 * right of root's. So neither a link nor a race leads it to anything else. Without bubblewrap it still runs as the owner.
 */
export async function toConfinement(confined: Confined): Promise<Confinement> {
  const { git, owner } = confined;
  const bwrap = isOfSystem(git) ? await findWorkingBwrap() : undefined;
  if (bwrap !== undefined) return toNamespaces(confined, bwrap);
  if (owner === undefined) return UNCONFINED;
  const stage = await toStage([confined.worktree, confined.objects, confined.place], owner);
  const prefix = [...stage.prefix, ...toDropPrefix(owner)];
  return {
    at: (path) => stage.at(path),
    wrap: ({ argv, env, cwd }) => ({ argv: [...prefix, "env", "-C", cwd, ...argv], env, cwd: "/" }),
  };
}

async function toNamespaces(confined: Confined, bwrap: string): Promise<Confinement> {
  const { worktree, objects, place, owner } = confined;
  const isApart = !isInside(objects, worktree);
  const stage = await toStage([worktree, place, ...(isApart ? [objects] : [])], owner);
  const drop = owner === undefined ? [] : toDropPrefix(owner);
  const options = [
    ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"],
    ["--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--new-session"],
    ["--die-with-parent", "--clearenv"],
    await systemMounts(),
    ["--dev", "/dev", "--ro-bind", stage.at(worktree), WORKTREE, "--bind", stage.at(place), PLACE],
    isApart ? ["--ro-bind", stage.at(objects), OBJECTS] : [],
    ["--remount-ro", "/"],
  ].flat();
  const limits = ["prlimit", `--data=${MEMORY_BYTES}`, "--core=0", "--"];
  return {
    at: (path) => toInnerPath(path, confined),
    wrap({ argv, env, cwd }) {
      // Whoever has a folder above it could have put a link in its place.
      OpenFolder.openReal(worktree).close();
      const variables = Object.entries({ ...env, PATH: toOuterPath(bwrap) });
      const set = variables.flatMap(([name, value]) => ["--setenv", name, value]);
      return {
        argv: [...stage.prefix, ...drop, bwrap, ...options, ...set, "--chdir", cwd, "--", ...limits, ...argv],
        env: { PATH: toOuterPath(bwrap) },
        cwd: "/",
      };
    },
  };
}

function toInnerPath(path: string, { worktree, place, objects }: Confined): string {
  for (const [host, inside] of [
    [worktree, WORKTREE],
    [place, PLACE],
    [objects, OBJECTS],
  ] as const) {
    if (isInside(path, host)) return join(inside, relative(host, path));
  }
  return path;
}

let working: Promise<string | undefined> | undefined;

function findWorkingBwrap(): Promise<string | undefined> {
  working ??= findBwrap().then(async (bwrap) => ((await detectBwrap(bwrap)).available ? bwrap : undefined));
  return working;
}
